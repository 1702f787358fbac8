"""Settings: one object, read once at the start, from flags, environment, `.env` and `anabranch.toml`.

Called by the command line and by programs that embed the engine; the app hands single values on to the
packages below, which never see this one. A new setting is a field here: its sentence is its
documentation, its bounds are its check, and its names follow from the field's name.
"""

from __future__ import annotations

import ast
import base64
import binascii
import difflib
import inspect
import os
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.graph.pools import DEFAULT_POOL, EVERY_POOL, POOL_NAME_PATTERN, is_pool_name
from anabranch.engine.rules.shared.blame import CRASHES_MAX
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit, parse_log_limit, parse_size
from anabranch.errors import SettingsError

# Needed only to read the files:
if TYPE_CHECKING:
    import tomllib

    import dotenv
else:
    tomllib = deferred("tomllib")
    dotenv = deferred("dotenv")

ENVIRONMENT_PREFIX = "ANABRANCH_"

# Variables of the test suite, which are not settings of the product.
TEST_PREFIX = "ANABRANCH_TEST_"

# 64 KB: a key or a URL is far shorter; a larger file is the wrong file.
SECRET_FILE_BYTES_MAX = 65_536

SECRET_KEY_BYTES = 32

OTLP_ENDPOINT_DEFAULT = "http://localhost:4318"
"""Where a collector on the same machine listens for OTLP over HTTP."""

EMBEDDED_DATABASE_URL = "sqlite:///.anabranch/anabranch.db"
"""The default: a file below the current directory, for local work."""


def _duration(value: Any) -> int:
    """As everywhere, and a plain number too: in a variable it can only be text."""
    return parse_duration(int(value) if isinstance(value, str) and value.strip().isdecimal() else value)


def _hosts(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _pools(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name != EVERY_POOL and not is_pool_name(name):
            raise ValueError(f"the pool {name!r} must match {POOL_NAME_PATTERN}")
    if not names:
        raise ValueError("name at least one pool")
    return tuple(dict.fromkeys(names))


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str | int) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _log_limit(value: Any) -> Any:
    return parse_log_limit(value) if isinstance(value, str | int) else value


ALL_POOLS = (EVERY_POOL,)
"""What a process serves that has to run whatever it is given."""

Milliseconds = Annotated[int, BeforeValidator(_duration)]
Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts)]
Pools = Annotated[tuple[str, ...], BeforeValidator(_hosts), AfterValidator(_pools)]


@dataclass(frozen=True, slots=True)
class SettingSource:
    """The source of a setting's value: by a flag, a variable of the environment, or a line of a file."""

    kind: Literal["flag", "environment", "file"]
    name: str
    """Of the flag, the variable or the key: `--port`, `ANABRANCH_PORT`, `port`."""
    path: Path | None = None
    """Of the file."""

    def __str__(self) -> str:
        if self.kind == "flag":
            return self.name
        return f"{self.name} in {'the environment' if self.path is None else self.path.name}"


class Settings(BaseModel):
    """Everything an operator may choose; immutable. The sentence under each field is its documentation.

    The setting `lease` is the flag `--lease`, the variable `ANABRANCH_LEASE`, the key `lease` in
    `anabranch.toml`, and the attribute `lease_ms`: attributes carry their unit. Settings that hold
    a secret may also be given as a file whose name is in `ANABRANCH_…_FILE`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: str = Field(default=EMBEDDED_DATABASE_URL, repr=False, pattern=r"^(sqlite|postgresql)")
    """Where runs are stored: `sqlite:///path` or `postgresql://user:password@host/name`, with several hosts
    `host1:port,host2:port`."""

    database_wait_ms: Milliseconds = Field(default=30_000, ge=0, le=3_600_000)
    """How long a database that is absent at start is waited for; a duration, 0 to 1 h."""

    database_pooled: Literal["auto", "true", "false"] = "auto"
    """Whether a pooler (PgBouncer) lends connections to PostgreSQL by the transaction; by default it is found out."""

    auto_migrate: bool = False
    """Bring an older database that has data in it to the current schema at start, instead of asking for `migrate`."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    """The address that the server listens on."""

    port: int = Field(default=8321, ge=0, le=65_535)
    """The TCP port that the server listens on; 0 picks a free one."""

    allowed_hosts: Hosts = ()
    """Names, separated by commas, that requests may call the server by; empty: localhost where only this machine
    reaches it, else any."""

    public_url: str | None = Field(default=None, pattern=r"^https?://[^@?#\s]+$")
    """The address of the server for others, `http(s)://host[:port][/prefix]`: what the addresses of webhooks and
    callbacks begin with. By default `http://`, `host` and `port`, which is good on this machine only."""

    webhook_rate: int = Field(default=60, ge=1, le=1_000_000)
    """Requests a second that a server accepts for one webhook that sets no `rateLimit`, 1 to 1,000,000; others are
    answered 429."""

    webhook_body_limit: Annotated[int, BeforeValidator(_size)] = Field(default=1_048_576, ge=1_024, le=16 * 1_048_576)
    """How large the body of a request may be for a webhook that sets no `bodyLimit`, and for a one-time address, 1KB to
    16MB; larger ones are answered 413."""

    connections_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Connections of clients at once, HTTP and socket, 1 to 1,000,000; fewer where `ulimit -n` leaves no room."""

    lease_ms: Milliseconds = Field(default=30_000, ge=500, le=3_600_000)
    """How long a worker keeps a run without a sign of life; 500 ms to 1 h. Recovery takes this + 5 s."""

    blocked_max_ms: Milliseconds = Field(default=60_000, ge=0, le=3_600_000)
    """How long a worker keeps its runs while a handler blocks its event loop, before their leases expire; a duration, 0
    (not at all) to 1 h."""

    concurrency: int = Field(default=64, ge=1, le=10_000)
    """Executions of nodes and steps at once per worker, 1 to 10,000."""

    pools: Pools = (DEFAULT_POOL,)
    """The pools that a worker serves, separated by commas; `*`: every one. It takes the runs whose nodes are all in
    these pools."""

    broker_url: SecretStr | None = None
    """A RabbitMQ that carries jobs of pools that a worker does not serve itself to `anabranch executor` processes:
    `amqp://user:password@host/vhost` or `amqps://…`. Needs the extra `anabranch[rabbitmq]`."""

    held_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Runs that one worker holds in memory at once, 1 to 1,000,000; further ones wait in the database."""

    pending_max: int = Field(default=100_000, ge=1, le=10_000_000)
    """PENDING runs after which a start that has to wait is refused with TOO_MANY_PENDING, 1 to 10,000,000."""

    held_max_per_tenant: int | None = Field(default=None, ge=1, le=1_000_000)
    """Of these, runs of one tenant, so that one tenant cannot use all places. By default half of `held_max`; with a
    single tenant set it to the same value."""

    pending_max_per_tenant: int | None = Field(default=None, ge=1, le=10_000_000)
    """PENDING runs of one tenant after which its further starts are refused with TOO_MANY_PENDING; by default half of
    `pending_max`."""

    unfinished_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Messages on topics whose runs could not be started yet, after which further ones are refused with
    TOO_MANY_PENDING, 1 to 1,000,000."""

    unfinished_max_per_tenant: int | None = Field(default=None, ge=1, le=1_000_000)
    """Of these, messages of one tenant; by default half of `unfinished_max`."""

    crash_limit: int = Field(default=CRASHES_MAX, ge=1, le=1_000)
    """Crashes of a worker after which a run that was the only suspect there is SUSPENDED, 1 to 1,000."""

    active: bool = False
    """Make the imported versions of coded workflows the active ones, also older versions; otherwise only a version that
    is newer than all others becomes active."""

    on_error: Literal["fail", "suspend"] = "fail"
    """What happens to runs whose workflow function has failed for good, unless the workflow sets it: `fail`, or
    `suspend` until they are resumed."""

    grace_ms: Milliseconds = Field(default=30_000, ge=0, le=3_600_000)
    """How long executions may continue after SIGTERM before they are cancelled and handed over; a duration, 0 to 1
    h."""

    max_retention_days: int = Field(default=365, ge=1, le=3_650)
    """The longest time that an ended run may ask to be kept, 1 to 3,650 days."""

    log_limit: Annotated[LogLimit, BeforeValidator(_log_limit)] = LOG_LIMIT
    """How large the log of one run may become before the run is FAILED with LOG_TOO_LARGE: a size of its payloads, 64KB
    to 4GB, a number of rows, `100 rows` to `100000000 rows`, or both, `64MB,1000000 rows`. Of what is left out the
    default stays."""

    sweep_interval_ms: Milliseconds = Field(default=300_000, ge=1_000, le=86_400_000)
    """How often a worker looks for ended runs whose retention is over, to remove them; a duration, 1 s to 24 h."""

    audit_retention_days: int = Field(default=400, ge=1, le=36_500)
    """How long rows of the audit trail are kept, 1 to 36,500 days: by default a year, plus some weeks to review it. The
    removal is recorded in the trail, which stays verifiable."""

    log_level: Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)] = "info"
    """The lowest level of lines from handlers, steps and code nodes that is kept with their runs and written to
    standard error, as one JSON object per line."""

    console_limit: Annotated[int, BeforeValidator(_size)] = Field(default=1_048_576, ge=65_536, le=1_073_741_824)
    """The console limit per run, 64KB to 1GB; further lines are dropped, and the last one says so."""

    console_limit_per_tenant: Annotated[int, BeforeValidator(_size)] = Field(
        default=268_435_456, ge=1_048_576, le=1_099_511_627_776
    )
    """The console limit per tenant, 1MB to 1TB; each sweep removes the oldest lines above it."""

    console_retention_days: int = Field(default=7, ge=1, le=3_650)
    """How long it is kept, 1 to 3,650 days, and never longer than its run."""

    egress_allow: Hosts = ()
    """Hosts, host:port or CIDRs, separated by commas, that nodes may reach although they are not public addresses."""

    sandbox_unsafe: bool = False
    """Run code nodes even if their processes cannot be sealed (no seccomp); only for code that you trust."""
    data_directories: Hosts = (".",)
    """Directories, separated by commas, below which data sources may be SQLite files; the current one by default."""

    secret_key: SecretStr | None = None
    """32 bytes in base64 that encrypt stored secrets; required to store a secret.

    For the embedded database one is generated and kept in `.anabranch/secret.key`."""

    otlp_enabled: bool | None = None
    """Export spans of runs to a collector of OpenTelemetry; by default where `otlp_endpoint` is set. Also read from
    `OTLP_ENABLED`. Needs the extra `anabranch[otel]`."""

    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://[^@?#\s]+$")
    """Where the collector listens for OTLP over HTTP, by default `http://localhost:4318`. Also read from
    `OTLP_ENDPOINT`."""

    metrics_key: SecretStr | None = Field(default=None, min_length=8)
    """The key that `/metrics` requires, as `Authorization: Bearer KEY`; by default none. It is not an API key, because
    metrics cover all tenants."""

    metrics_names: Literal["coded", "all"] | None = None
    """The names that `/metrics` shows: of `coded` workflows only, or of `all`, tenants' drawn ones too. By default all
    of them in `dev` and where `metrics_key` is set."""

    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """The TCP port on which a worker serves `/metrics`, `/healthz` and `/readyz`, at the address of `host`; 0 picks a
    free one. By default it opens none."""

    processes: int = Field(default=1, ge=1, le=256)
    """How many processes `anabranch worker` runs, 1 to 256: one for each core that it may use. With several, their
    metrics are on `metrics_port` and the ports after it."""

    url: str | None = Field(default=None, pattern=r"^https?://[^@?#\s]+$")
    """A server, `http(s)://host[:port][/prefix]`, that commands about runs and workflows ask, not the database, and
    executors for what their jobs refer to."""

    token: SecretStr | None = None
    """The API key that they ask it with."""

    api_key: SecretStr | None = None
    """The API key that `anabranch dev` uses instead of one of its own."""

    @classmethod
    def load(cls, *, environ: Mapping[str, str] | None = None, folder: Path | None = None, **flags: Any) -> Self:
        """Load the settings: flag, else environment, else `.env`, else `anabranch.toml`, else default.

        The two files are searched in `folder` (default: the current one); a flag that is None was not given. Raises
        SettingsError for an unknown name, with the most similar known one, for a value out of bounds and for an
        unreadable file.
        """
        return cls.load_with_sources(environ=environ, folder=folder, **flags)[0]

    @classmethod
    def load_with_sources(
        cls, *, environ: Mapping[str, str] | None = None, folder: Path | None = None, **flags: Any
    ) -> tuple[Self, Mapping[str, SettingSource]]:
        """The same, and where each field was chosen: by its name; fields with their default are absent."""
        folder = folder or Path()
        found = [
            *_from_flags(flags),
            *_from_variables(os.environ if environ is None else environ, None),
            *_from_variables(_read_dotenv(folder / ".env"), folder / ".env"),
            *_from_toml(folder / "anabranch.toml"),
        ]
        chosen = {choice.field: choice for choice in reversed(found)}
        try:
            settings = cls(**{name: choice.value for name, choice in chosen.items()})
        except ValidationError as refusal:
            raise _out_of_bounds(refusal, chosen) from None
        return settings, {field: choice.source for field, choice in chosen.items()}

    @property
    def held_per_tenant_max(self) -> int:
        """How many runs of one tenant a worker may own at once."""
        return _share(self.held_max, self.held_max_per_tenant)

    @property
    def pending_per_tenant_max(self) -> int:
        """PENDING runs of one tenant."""
        return _share(self.pending_max, self.pending_max_per_tenant)

    @property
    def unfinished_per_tenant_max(self) -> int:
        """Unfinished messages of one tenant."""
        return _share(self.unfinished_max, self.unfinished_max_per_tenant)

    @property
    def reached_at(self) -> str:
        """The beginning of the addresses of webhooks and callbacks."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        is_every = self.host in ("0.0.0.0", "::")  # noqa: S104 -- compared, not bound to
        host = "localhost" if is_every else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def shown_names(self) -> str:
        """The workflows whose names `/metrics` shows."""
        return self.metrics_names or ("coded" if self.metrics_key is None else "all")

    @property
    def spans_endpoint(self) -> str | None:
        """The address to which spans are exported; None: nowhere."""
        is_wanted = self.otlp_endpoint is not None if self.otlp_enabled is None else self.otlp_enabled
        return (self.otlp_endpoint or OTLP_ENDPOINT_DEFAULT) if is_wanted else None

    @field_validator("broker_url")
    @classmethod
    def _broker_url_is_amqp(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("amqp://", "amqps://")):
            raise ValueError("it should begin with amqp:// or amqps://")
        return value

    @field_validator("secret_key")
    @classmethod
    def _secret_key_is_32_bytes(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            try:
                size = len(base64.b64decode(value.get_secret_value(), validate=True))
            except binascii.Error:
                size = 0
            if size != SECRET_KEY_BYTES:
                raise ValueError("it should be 32 bytes in base64; make one with `openssl rand -base64 32`")
        return value


def _share(limit: int, chosen: int | None) -> int:
    """The share of one tenant in a global limit: half, rounded up, unless set."""
    return (limit + 1) // 2 if chosen is None else min(chosen, limit)


def environment_name(field: str) -> str:
    """The variable of a setting, `ANABRANCH_LEASE` for `lease_ms`."""
    return ENVIRONMENT_PREFIX + _setting_name(field).upper()


@cache
def sentences() -> Mapping[str, str]:
    """The sentence under each field; none where there is no source to read.

    Read on demand: letting pydantic do it for every command took as long as the rest of this file.
    """
    try:
        (definition,) = ast.parse(inspect.getsource(Settings)).body
    except OSError:
        return {}
    assert isinstance(definition, ast.ClassDef), "the source of a class is a class"
    found = {}
    for field, below in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(below.value.value))
    return found


@dataclass(frozen=True, slots=True)
class _Choice:
    """A chosen value of a field, and its source."""

    field: str
    value: Any
    source: SettingSource


def _setting_name(field: str) -> str:
    return field.removesuffix("_ms")


_FIELDS = {_setting_name(field): field for field in Settings.model_fields}
_SECRETS = frozenset({"database_url", "secret_key", "api_key", "token", "metrics_key", "broker_url"})
_VARIABLES = {ENVIRONMENT_PREFIX + name.upper(): field for name, field in _FIELDS.items()}
# Variables that other programs share; ours take precedence.
_SHARED_VARIABLES = {field.upper(): field for field in ("otlp_enabled", "otlp_endpoint")}
_FILE_VARIABLES = {f"{environment_name(field)}_FILE": field for field in _SECRETS}


def _from_flags(flags: Mapping[str, Any]) -> Iterable[_Choice]:
    for name, value in flags.items():
        if name not in _FIELDS:
            raise _unknown(f"the setting {name}", name, _FIELDS)
        if value is not None:
            yield _Choice(_FIELDS[name], value, SettingSource("flag", f"--{name.replace('_', '-')}"))


def _from_variables(variables: Mapping[str, str | None], path: Path | None) -> Iterable[_Choice]:
    """The settings from the environment, or from the `.env` file at `path`."""
    source_name = "the environment" if path is None else path.name

    def source(name: str) -> SettingSource:
        return SettingSource("environment" if path is None else "file", name, path)

    ours = {
        name: value
        for name, value in variables.items()
        if name.startswith(ENVIRONMENT_PREFIX) and not name.startswith(TEST_PREFIX)
    }
    for name, value in ours.items():
        if name not in _VARIABLES and name not in _FILE_VARIABLES:
            raise _unknown(f"{name} in {source_name}", name, [*_VARIABLES, *_FILE_VARIABLES])
        if not value:  # container files use an empty variable for "not set"
            continue
        if name in _VARIABLES:
            yield _Choice(_VARIABLES[name], value, source(name))
        elif ours.get(name.removesuffix("_FILE")):
            raise SettingsError(
                f"both {name.removesuffix('_FILE')} and {name} are set in {source_name}", hint="Remove one of the two."
            )
        else:
            yield _Choice(_FILE_VARIABLES[name], _read_secret(name, Path(value)), source(name))
    for name, field in _SHARED_VARIABLES.items():
        if variables.get(name):
            yield _Choice(field, variables[name], source(name))


def _from_toml(path: Path) -> Iterable[_Choice]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as refusal:
        raise SettingsError(f"{path} cannot be read: {refusal}", hint="Correct the file or remove it.") from None
    for name, value in values.items():
        if name not in _FIELDS:
            raise _unknown(f"{name} in {path.name}", name, _FIELDS)
        yield _Choice(_FIELDS[name], value, SettingSource("file", name, path))


def _read_dotenv(path: Path) -> Mapping[str, str | None]:
    try:
        return dotenv.dotenv_values(path, interpolate=False) if path.is_file() else {}
    except (OSError, UnicodeDecodeError) as refusal:
        raise SettingsError(f"{path} cannot be read: {refusal}", hint="Correct the file or remove it.") from None


def _read_secret(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
        if len(content) > SECRET_FILE_BYTES_MAX:
            raise SettingsError(f"{name} names {path}, which has more than {SECRET_FILE_BYTES_MAX} bytes")
        return content.decode().strip()
    except (OSError, UnicodeDecodeError) as refusal:
        reason = refusal.strerror if isinstance(refusal, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"{name} names {path}, which cannot be read: {reason}") from None


def _unknown(what: str, name: str, known: Iterable[str]) -> SettingsError:
    by_lower_case = {candidate.lower(): candidate for candidate in known}  # letters of the wrong case are near
    nearest = next(
        (by_lower_case[match] for match in difflib.get_close_matches(name.lower(), by_lower_case, n=1)), None
    )
    hint = f"Did you mean {nearest}?" if nearest else "`anabranch doctor` lists the settings."
    return SettingsError(f"{what} is not a setting", hint=hint, details={"name": name, "nearest": nearest})


def _out_of_bounds(refusal: ValidationError, chosen: Mapping[str, _Choice]) -> SettingsError:
    """One error that lists every value out of bounds, where it was chosen, and never a secret's value."""
    problems = []
    for problem in refusal.errors(include_url=False, include_input=False):
        field = str(problem["loc"][0])
        reason = problem["msg"].removeprefix("Value error, ")
        if field == "database_url":
            reason = "it should begin with sqlite:/// or postgresql://"
        problems.append({"name": environment_name(field), "origin": str(chosen[field].source), "message": reason})
    message = "; ".join(f"{problem['origin']} is refused: {problem['message']}" for problem in problems)
    advice_of = sentences()
    advice = (advice_of.get(str(problem["loc"][0]), "") for problem in refusal.errors())
    return SettingsError(message, hint=" ".join(dict.fromkeys(advice)), details=problems)
