from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Advice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NONE: _ClassVar[Advice]
    RENEW: _ClassVar[Advice]
    GO_ELSEWHERE: _ClassVar[Advice]
NONE: Advice
RENEW: Advice
GO_ELSEWHERE: Advice

class Place(_message.Message):
    __slots__ = ("epoch", "sequence", "chain")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    sequence: int
    chain: bytes
    def __init__(self, epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., chain: _Optional[bytes] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("files", "env", "argv", "certificate", "trust")
    FILES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    files: bytes
    env: bytes
    argv: bytes
    certificate: bytes
    trust: bytes
    def __init__(self, files: _Optional[bytes] = ..., env: _Optional[bytes] = ..., argv: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., trust: _Optional[bytes] = ...) -> None: ...

class ChallengeRequest(_message.Message):
    __slots__ = ("seen",)
    SEEN_FIELD_NUMBER: _ClassVar[int]
    seen: Place
    def __init__(self, seen: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class ChallengeResponse(_message.Message):
    __slots__ = ("nonce", "seconds", "intermediate", "at")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    INTERMEDIATE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    seconds: int
    intermediate: bytes
    at: Place
    def __init__(self, nonce: _Optional[bytes] = ..., seconds: _Optional[int] = ..., intermediate: _Optional[bytes] = ..., at: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("nonce", "csr", "evidence", "seen")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    csr: bytes
    evidence: bytes
    seen: Place
    def __init__(self, nonce: _Optional[bytes] = ..., csr: _Optional[bytes] = ..., evidence: _Optional[bytes] = ..., seen: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("chain", "now", "renew_at", "end", "at", "settle_seconds", "marble_roots")
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    RENEW_AT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MARBLE_ROOTS_FIELD_NUMBER: _ClassVar[int]
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    now: int
    renew_at: int
    end: int
    at: Place
    settle_seconds: int
    marble_roots: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, chain: _Optional[_Iterable[bytes]] = ..., now: _Optional[int] = ..., renew_at: _Optional[int] = ..., end: _Optional[int] = ..., at: _Optional[_Union[Place, _Mapping]] = ..., settle_seconds: _Optional[int] = ..., marble_roots: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("have", "seen")
    HAVE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    have: Version
    seen: Place
    def __init__(self, have: _Optional[_Union[Version, _Mapping]] = ..., seen: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("data", "own")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    own: Own
    def __init__(self, data: _Optional[bytes] = ..., own: _Optional[_Union[Own, _Mapping]] = ...) -> None: ...

class Own(_message.Message):
    __slots__ = ("member", "form")
    class Member(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CERT: _ClassVar[Own.Member]
        PUBLIC: _ClassVar[Own.Member]
        PRIVATE: _ClassVar[Own.Member]
    CERT: Own.Member
    PUBLIC: Own.Member
    PRIVATE: Own.Member
    class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PEM: _ClassVar[Own.Form]
        RAW: _ClassVar[Own.Form]
        HEX: _ClassVar[Own.Form]
        BASE64: _ClassVar[Own.Form]
    PEM: Own.Form
    RAW: Own.Form
    HEX: Own.Form
    BASE64: Own.Form
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    member: Own.Member
    form: Own.Form
    def __init__(self, member: _Optional[_Union[Own.Member, str]] = ..., form: _Optional[_Union[Own.Form, str]] = ...) -> None: ...

class Content(_message.Message):
    __slots__ = ("piece",)
    PIECE_FIELD_NUMBER: _ClassVar[int]
    piece: _containers.RepeatedCompositeFieldContainer[Piece]
    def __init__(self, piece: _Optional[_Iterable[_Union[Piece, _Mapping]]] = ...) -> None: ...

class Rules(_message.Message):
    __slots__ = ("signal", "command", "restart", "stop_at_end")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    STOP_AT_END_FIELD_NUMBER: _ClassVar[int]
    signal: str
    command: _containers.RepeatedScalarFieldContainer[str]
    restart: bool
    stop_at_end: bool
    def __init__(self, signal: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., restart: _Optional[bool] = ..., stop_at_end: _Optional[bool] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("files", "env", "argv", "marble_roots", "version", "at", "rules", "now")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Content
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Content, _Mapping]] = ...) -> None: ...
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Content
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Content, _Mapping]] = ...) -> None: ...
    FILES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    MARBLE_ROOTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    files: _containers.MessageMap[str, Content]
    env: _containers.MessageMap[str, Content]
    argv: _containers.RepeatedScalarFieldContainer[str]
    marble_roots: _containers.RepeatedScalarFieldContainer[bytes]
    version: Version
    at: Place
    rules: Rules
    now: int
    def __init__(self, files: _Optional[_Mapping[str, Content]] = ..., env: _Optional[_Mapping[str, Content]] = ..., argv: _Optional[_Iterable[str]] = ..., marble_roots: _Optional[_Iterable[bytes]] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., at: _Optional[_Union[Place, _Mapping]] = ..., rules: _Optional[_Union[Rules, _Mapping]] = ..., now: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("have", "seen", "once")
    HAVE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    have: Version
    seen: Place
    once: bool
    def __init__(self, have: _Optional[_Union[Version, _Mapping]] = ..., seen: _Optional[_Union[Place, _Mapping]] = ..., once: _Optional[bool] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("version", "at", "advice", "spread_ms", "now", "poll_seconds")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    SPREAD_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    POLL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    version: Version
    at: Place
    advice: Advice
    spread_ms: int
    now: int
    poll_seconds: int
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., at: _Optional[_Union[Place, _Mapping]] = ..., advice: _Optional[_Union[Advice, str]] = ..., spread_ms: _Optional[int] = ..., now: _Optional[int] = ..., poll_seconds: _Optional[int] = ...) -> None: ...
