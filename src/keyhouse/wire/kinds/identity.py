"""The identity of a confidential VM: the common rules of all kinds.

A field of fixed size has hex text in any case of letters, and must equal the VM's value byte by
byte. A field that is not given ("") is not compared.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final, Self

import msgspec

from keyhouse.base.errors import Problem

FROM_A_QUOTE: Final = "copy the values of a quote from keyhouse package-info"
THAT_OF_A_QUOTE: Final = "copy the value of a quote from keyhouse package-info"
_HEX: Final = r"[0-9a-fA-F]*"


class FieldMismatch(msgspec.Struct, frozen=True):
    """A field of a VM's identity with an unexpected value. ``field`` is its name in a manifest.

    ``found`` and ``wanted`` are text; bytes are in hex.
    """

    field: str
    found: str
    wanted: str


class VmIdentity(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The required identity of a confidential VM: the base class of all kinds.

    The first field of each kind is the measurement of the VM's first memory.
    """

    # The field of a package with this identity, such as "TDX".
    FIELD: ClassVar[str]
    # Bytes of each field of fixed size, by its name in a manifest.
    SIZES: ClassVar[Mapping[str, int]]
    # The check of each field with values that are never accepted. It returns a reason, or "".
    FAULTS: ClassVar[Mapping[str, Callable[[bytes], str]]]
    # The names of the bits of a field, for people.
    BITS: ClassVar[Mapping[str, Mapping[int, str]]]
    # The fields that the host sets when it starts the VM.
    SET_BY_THE_HOST: ClassVar[tuple[str, ...]]
    # Does the vendor state a TCB status? If not, the identity itself states required versions.
    STATES_TCB: ClassVar[bool] = True

    @classmethod
    def first_field(cls) -> str:
        """Return the name of the first field. No identity may omit this measurement."""
        return cls.__struct_encode_fields__[0]

    def texts(self) -> dict[str, str]:
        """Return the hex value of each field of fixed size, by its name; "" if not given."""
        return {field: getattr(self, name) for field, name in self._fixed()}

    def in_lower_case(self) -> Self:
        """Return the identity in lower case, the form of all comparisons."""
        values = {name: getattr(self, name).lower() for _, name in self._fixed()}
        return msgspec.structs.replace(self, **values)

    def differences(self, actual: Self) -> Iterator[FieldMismatch]:
        """Yield each field of this identity that differs in ``actual``, the identity of a real VM.

        Fields that are not given here are skipped. ``actual`` is in lower case.
        """
        has = actual.texts()
        for field, wanted in self.texts().items():
            if wanted and wanted.lower() != has[field]:
                yield FieldMismatch(field, has[field], wanted)

    def problems(self) -> Iterator[Problem]:
        """Yield each missing or invalid field. An identity with a problem admits no VM."""
        texts = self.texts()
        if not texts[self.first_field()]:
            yield Problem(self.first_field(), "is missing", THAT_OF_A_QUOTE)
        for field, value in texts.items():
            digits = 2 * self.SIZES[field]
            if not value:
                continue
            if not (len(value) == digits and re.fullmatch(_HEX, value)):
                hint = "write hex without 0x and without spaces"
                yield Problem(field, f"is not {digits} hex digits", hint)
            elif field in self.FAULTS and (fault := self.FAULTS[field](bytes.fromhex(value))):
                hint = "start the VM with another value, because this value is always refused"
                yield Problem(field, f"admits no VM: {fault}", hint)

    def warnings(self) -> Iterator[Problem]:
        """Yield a warning if missing fields let the host choose values of the VM.

        Its place is "", for the whole identity.
        """
        texts = self.texts()
        if missing := [field for field in self.SET_BY_THE_HOST if not texts[field]]:
            yield Problem(
                "",
                f"does not give {', '.join(missing)}, so the host chooses what the VM reads there",
                "write these fields; use zeros if the VM starts without a value",
            )

    @classmethod
    def _fixed(cls) -> Iterator[tuple[str, str]]:
        names = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
        return ((field, name) for field, name in names if field in cls.SIZES)
