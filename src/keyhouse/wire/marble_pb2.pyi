from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActivationReq(_message.Message):
    __slots__ = ("Quote", "CSR", "MarbleType", "UUID")
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    MARBLETYPE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    Quote: bytes
    CSR: bytes
    MarbleType: str
    UUID: str
    def __init__(self, Quote: _Optional[bytes] = ..., CSR: _Optional[bytes] = ..., MarbleType: _Optional[str] = ..., UUID: _Optional[str] = ...) -> None: ...

class ActivationResp(_message.Message):
    __slots__ = ("Parameters",)
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    Parameters: Parameters
    def __init__(self, Parameters: _Optional[_Union[Parameters, _Mapping]] = ...) -> None: ...

class Parameters(_message.Message):
    __slots__ = ("Files", "Env", "Argv")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    FILES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    Files: _containers.ScalarMap[str, bytes]
    Env: _containers.ScalarMap[str, bytes]
    Argv: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, Files: _Optional[_Mapping[str, bytes]] = ..., Env: _Optional[_Mapping[str, bytes]] = ..., Argv: _Optional[_Iterable[str]] = ...) -> None: ...
