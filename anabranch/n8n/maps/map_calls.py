"""Nodes of n8n that call something: HTTP requests, code, databases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.n8n.expressions import translate
from anabranch.n8n.javascript import prelude
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import continue_on_fail
from anabranch.n8n.maps.credentials import put_header, renewed_at, renewing, sent_as, service_account, signing
from anabranch.n8n.maps.pagination import DELAY_MS_MAX, begin_pages, end_pages, pagination_of
from anabranch.n8n.maps.programs import ANSWERS
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.maps.set_values import json_of
from anabranch.n8n.phrases import Untranslatable
from anabranch.n8n.refs import variable
from anabranch.n8n.texts import Source, Texts, expression, split, without_sign

# n8n gives a request five minutes.
_TIMEOUT_MS = 300_000

# n8n sends 50 requests, and waits a second.
_BATCH, _PAUSE_MS = 50, 1_000

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


@maps("httpRequest", becomes="httpRequest, javascript")
def http(job: MappingJob) -> None:
    """`httpRequest`, all its versions; what it gives are items, as in n8n."""
    new = job.node.version >= 3
    if not new and _has_no_type_for_files(job):
        job.always_fails('Sending binary data needs the option "Body Content Type" RAW/CUSTOM or FORM-DATA/MULTIPART')
        return
    feed, texts = continue_on_fail.begin(job), job.texts()
    config: dict[str, Any] = {"url": _url(job, texts)}
    method = job.option("method" if new else "requestMethod", default="GET")
    if isinstance(method, str) and method.startswith("="):
        method = texts.value(method)
    elif method not in _METHODS:
        raise NotMapped(f"the method {method}")
    config["method"] = method
    _query_and_headers(job, texts, config, new=new)
    (_body if new else _old_body)(job, texts, config)
    _authentication(job, config)
    answer = _answer(job, config, new=new)
    attempts = job.attempts()
    if answer["neverError"] or (job.error_way != "stop" and attempts["retry"]["maxAttempts"] == 1):
        config["okStatuses"] = list(range(400, 600))
    redirect = job.option("options", "redirect", "redirect", default={})
    if isinstance(redirect, dict) and redirect.get("followRedirects") is False:
        config["followRedirects"] = False
    if not config.get("headers"):
        config.pop("headers", None)
    if not config.get("query"):
        config.pop("query", None)
    pages = pagination_of(job) if new else None
    if pages is not None and (missing := begin_pages(job, pages, config)) is not None:
        job.differs(missing)
        pages = None
    raw = job.add(
        "httpRequest", config, suffix="answer", each=feed, **_timeout(job, config), **attempts, **job.on_error()
    )
    values = variable(raw)
    job.nodes[-1]["name"] = job.node.name
    listed, loop = values.js if feed.many else f"[{values.js}]", None
    if pages is not None:
        loop = end_pages(job, pages)
        listed = f"{variable(loop).js}.flatMap(each => each.answer ?? [])"
    files = answer["format"] in ("file", "auto")
    before = feed.as_list().files if files else None
    head = f"const answers = {listed}, as = {json.dumps(answer)}, before = {before.js if before else '[]'} ?? [];\n"
    head = f"{prelude('buffer')}{prelude('files')}\n{head}" if files else head
    continue_on_fail.end(job, ANSWERS, head=head, files=files, loop=loop)
    named = next(node for node in job.nodes if node["id"] == job.node_id)
    named["name"] = f"{job.node.name}: items"


def _has_no_type_for_files(job: MappingJob) -> bool:
    """Whether it is an older node that sends a file as JSON, which n8n refuses."""
    kind = job.fixed("options", "bodyContentType", default="json")
    is_sent = job.option("requestMethod", default="GET") in ("PATCH", "POST", "PUT")
    sends = job.option("jsonParameters") is True and job.option("sendBinaryData") is True
    return is_sent and sends and kind not in ("raw", "multipart-form-data")


def _url(job: MappingJob, texts: Texts) -> str:
    url = texts.text(job.option("url", default=""))
    if not url:
        return "{{''}}"  # it fails when it is reached, as in n8n
    return url if "://" in url or url.startswith("{{") else f"http://{url}"


def _timeout(job: MappingJob, config: dict[str, Any]) -> dict[str, Any]:
    timeout = job.option("options", "timeout", default=_TIMEOUT_MS)
    if not isinstance(timeout, int) or timeout < 1:
        timeout = _TIMEOUT_MS
    return {"timeout": timeout + (DELAY_MS_MAX if "delay" in config else 0)}


def _answer(job: MappingJob, config: dict[str, Any], *, new: bool) -> dict[str, Any]:
    options = job.option("options", "response", "response", default={}) if new else job.option("options", default={})
    form = options.get("responseFormat", "autodetect") if new else job.option("responseFormat", default="json")
    full = options.get("fullResponse", False)
    if form == "file":
        config["response"] = "base64"
    if any(isinstance(each, str) and each.startswith("=") for each in (form, full)):
        raise NotMapped("the form of its answer is computed")
    name = options.get("outputPropertyName") if new else job.option("dataPropertyName")
    if job.needed_feed().many:
        _batches(job, config)
    if job.around.reads_files and form in ("file", "autodetect"):
        config["finalURL"] = True
    if job.option("options", "allowUnauthorizedCerts") is True or job.option("allowUnauthorizedCerts") is True:
        config["checkCertificate"] = False
    if proxy := without_sign(job.option("options", "proxy")):
        if not isinstance(proxy, str) or not proxy.removeprefix("=").startswith("http://"):
            raise NotMapped("its proxy is not an HTTP address")
        config["proxy"] = job.texts().text(proxy)
    if full is True:
        job.remarks.append("the answer has no `statusMessage`")
    return {
        "format": {"string": "text", "autodetect": "auto"}.get(str(form), str(form)),
        "full": full is True,
        "name": name if isinstance(name, str) and name else "data",
        "fileName": (name or "data") if new else None,
        "neverError": options.get("neverError") is True or (not new and options.get("ignoreResponseCode") is True),
    }


def _batches(job: MappingJob, config: dict[str, Any]) -> None:
    """The pause that n8n makes after each batch of requests."""
    batch = job.option("options", "batching", "batch")
    if not isinstance(batch, dict):
        batch = {name: job.option("options", name) for name in ("batchSize", "batchInterval")}
        if batch["batchSize"] is None:
            return
    size, pause = (batch.get(name) for name in ("batchSize", "batchInterval"))
    size, pause = (default if value is None else value for value, default in ((size, _BATCH), (pause, _PAUSE_MS)))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (size, pause)) or pause > DELAY_MS_MAX:
        job.differs("requests go out one after the other, without n8n's batches and pauses")
    elif size >= 0 < pause:
        config["delay"] = expression(f"{pause} if ctx.index > 0 and ctx.index % {max(1, size)} == 0 else 0")


def _query_and_headers(job: MappingJob, texts: Texts, config: dict[str, Any], *, new: bool) -> None:
    for ours, theirs in (("query", "Query"), ("headers", "Headers")):
        if new:
            if job.option(f"send{theirs}") is not True:
                continue
            if job.fixed(f"specify{theirs}", default="keypair") == "json":
                made = _written_json(job.option(f"json{theirs}", default="{}"), texts)
                made = _flat(_named(made) if ours == "headers" else made)
            else:
                singular = theirs.removesuffix("s") if theirs == "Headers" else theirs
                made = _pairs(job, texts, f"{singular.lower()}Parameters", "parameters", case=theirs == "Headers")
        elif job.option("jsonParameters") is True:
            name = "headerParametersJson" if ours == "headers" else "queryParametersJson"
            made = _flat(_written_json(job.option(name, default="{}") or "{}", texts))
        else:
            made = _pairs(
                job, texts, f"{theirs.removesuffix('s').lower()}ParametersUi", "parameter", case=ours == "headers"
            )
        config[ours] = made


def _name(parameter: Mapping[str, Any]) -> str:
    name = str(without_sign(parameter["name"]))
    if name.startswith("="):
        raise NotMapped("the name of a parameter is computed")
    return name


def _written_json(written: Any, texts: Texts) -> Any:
    """JSON text whose expressions all stand within its texts, or any other JSON."""
    if isinstance(written, str) and written.startswith("="):
        pieces = split(written[1:])
        sources = [piece for piece in pieces if isinstance(piece, Source)]
        marked = "".join(piece if isinstance(piece, str) else f"\ue000{sources.index(piece)}\ue001" for piece in pieces)
        value = _read(marked)
        if value is None and _are_numbers(sources, texts):
            value = _read(_BARE.sub(lambda found: f'"{found[0]}"', marked))
        if value is not None:
            return texts.value(_restored(value, sources))
    return json_of(written, texts)


# An expression that stands for a value of its own, and not within a text.
_BARE = re.compile("(?<=[:,\\[])\\s*\ue000\\d+\ue001(?=\\s*[,}\\]])")


def _read(marked: str) -> Any:
    try:
        return json.loads(marked.strip() or "{}", strict=False)
    except (ValueError, RecursionError):
        return None


def _are_numbers(sources: list[Source], texts: Texts) -> bool:
    """Whether all expressions are numbers, which are the same in JSON with and without a text around them."""
    try:
        return all(translate(source.js, texts.scope).kind == "number" for source in sources)
    except Untranslatable:
        return False


def _restored(value: Any, sources: list[Source]) -> Any:
    if isinstance(value, dict):
        return {name: _restored(each, sources) for name, each in value.items()}
    if isinstance(value, str) and "\ue000" in value:
        value = value.strip() if value.strip().startswith("\ue000") and value.strip().endswith("\ue001") else value
        return "=" + re.sub("\ue000(\\d+)\ue001", lambda found: "{{ " + sources[int(found[1])].js + " }}", value)
    return value


def _brackets(name: str, value: Any) -> dict[str, Any]:
    """Objects within a query, whose fields are written `name[field]`."""
    if not isinstance(value, dict):
        return {name: value}
    return {path: each for key, inner in value.items() for path, each in _brackets(f"{name}[{key}]", inner).items()}


def _named(value: Any) -> Any:
    """Headers that are a list as n8n sends them: by their numbers. An object is not a text in JavaScript."""
    if not isinstance(value, list):
        return value
    return {str(number): "[object Object]" if isinstance(each, dict) else each for number, each in enumerate(value)}


def _flat(value: Any) -> dict[str, Any]:
    computed = isinstance(value, str) and value.startswith("{{")
    if isinstance(value, dict) and not computed:
        value = {name: each for key, inner in value.items() for name, each in _brackets(str(key), inner).items()}
    if not isinstance(value, dict) or any(isinstance(each, list) for each in value.values()) or computed:
        raise NotMapped("its headers or query are computed as a whole")
    return {str(key): str(each).lower() if isinstance(each, bool) else each for key, each in value.items()}


def _parameters(job: MappingJob, group: str, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parameters of a list that have names, by their names."""
    listed = job.option(group, name, default=[])
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name"):
            yield _name(each), each


def _add(made: dict[str, Any], key: str, value: Any) -> None:
    """Enter a value; a key that is repeated has a list of them."""
    if key in made:
        value = [*(made[key] if isinstance(made[key], list) else [made[key]]), value]
    made[key] = value


def _pairs(job: MappingJob, texts: Texts, group: str, name: str, *, case: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, each in _parameters(job, group, name):
        value = texts.text(each.get("value", ""))
        if case:
            made[key.strip()] = value
        else:
            _add(made, key, value)
    return made


def _body(job: MappingJob, texts: Texts, config: dict[str, Any]) -> None:
    if job.option("sendBody") is not True:
        return
    kind = job.fixed("contentType", default="json")
    specified = job.fixed("specifyBody", default="keypair")
    match kind:
        case "json" if specified == "json":
            _json_body(job, texts, config, job.option("jsonBody", default="{}"))
        case "json":
            config["json"] = _object_of(job, texts, "bodyParameters", "parameters")
        case "form-urlencoded" if specified == "string":
            config["body"] = texts.text(job.option("body", default=""))
            _content_type(config, "application/x-www-form-urlencoded")
        case "form-urlencoded":
            _form(job, texts, config, "bodyParameters", "parameters")
        case "raw":
            config["body"] = texts.text(job.option("body", default=""))
            _content_type(config, str(job.fixed("rawContentType", default="text/plain") or "text/plain"))
        case "multipart-form-data":
            _parts(job, texts, config, "bodyParameters", "parameters")
        case _:
            _file_as_body(job, texts, config, "inputDataFieldName")


def _old_body(job: MappingJob, texts: Texts, config: dict[str, Any]) -> None:
    method = job.option("requestMethod", default="GET")
    if (
        method in ("GET", "HEAD")
        and not job.option("bodyParametersUi", "parameter")
        and not job.option("bodyParametersJson")
    ):
        return
    kind = job.fixed("options", "bodyContentType", default="json")
    if job.option("sendBinaryData") is True:
        if job.option("jsonParameters") is not True:
            raise NotMapped("its body is a form with files")
        if kind == "multipart-form-data":
            config["form"] = _named_files(job, texts)
            return
        _file_as_body(job, texts, config, "binaryPropertyName")
        config["headers"]["Content-Type"] = "application/x-www-form-urlencoded"  # what n8n's client says of bytes
        return
    if kind not in ("json", "form-urlencoded", "raw"):
        raise NotMapped("its body is a form with files")
    if job.option("jsonParameters") is True:
        written = job.option("bodyParametersJson", default="")
        if not written:
            return
        if kind == "raw":
            config["body"] = texts.text(written)
            mime = job.option("options", "bodyContentCustomMimeType", default="text/plain")
            _content_type(config, str(mime))
            return
        _json_body(job, texts, config, written)
        return
    if kind == "form-urlencoded":
        _form(job, texts, config, "bodyParametersUi", "parameter")
    elif made := _object_of(job, texts, "bodyParametersUi", "parameter"):
        config["json"] = made


def _file_as_body(job: MappingJob, texts: Texts, config: dict[str, Any], parameter: str) -> None:
    """The bytes of one of the files of the item, which are of the file's type unless a header says otherwise."""
    name = job.fixed(parameter, default="data")
    if not isinstance(name, str) or not name or any(sign in name for sign in ":,"):
        raise NotMapped("its body is a file")
    file = texts.scope.files().field(name)
    config["base64"] = expression(file.field("data").template)
    _content_type(config, expression(f"{file.field('mimeType').template} | default('application/octet-stream')"))


def _json_body(job: MappingJob, texts: Texts, config: dict[str, Any], written: Any) -> None:
    if isinstance(written, str) and written.startswith("="):
        pieces = split(written[1:])
        if len(pieces) > 1 and any(isinstance(piece, Source) for piece in pieces):
            config["body"] = texts.text(written)  # it is JSON once its expressions are in it
            _content_type(config, "application/json")
            return
        if len(pieces) == 1 and isinstance(pieces[0], Source):
            phrase = texts.phrase(written)
            if phrase.kind in ("object", "list"):
                config["json"] = expression(phrase.whole())
            elif phrase.kind == "text":
                config["json"] = expression(f"{phrase.atom} | fromjson")
            else:
                text = f"({phrase.value} | tojson | slice(0, 1)) == '\"'"
                config["json"] = expression(f"({phrase.atom} | fromjson) if {text} else {phrase.value}")
            return
    config["json"] = json_of(written, texts)


def _object_of(job: MappingJob, texts: Texts, group: str, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, each in _parameters(job, group, name):
        if "[" in key and job.node.version < 3:
            raise NotMapped("a parameter is an item of a list")
        _add(made, key, texts.value(each.get("value", "")))
    return made


def _form(job: MappingJob, texts: Texts, config: dict[str, Any], group: str, name: str) -> None:
    parts = []
    for key, each in _parameters(job, group, name):
        phrase = texts.phrase(each.get("value", ""))
        plain = phrase.text if phrase.is_path else phrase.atom
        parts.append(f"{key}=" + expression(f"({plain} | js_text | urlencode)"))
    config["body"] = "&".join(parts)
    _content_type(config, "application/x-www-form-urlencoded")


def _parts(job: MappingJob, texts: Texts, config: dict[str, Any], group: str, name: str) -> None:
    """A form in parts: texts and files."""
    parts: list[dict[str, Any]] = []
    for key, each in _parameters(job, group, name):
        part: dict[str, Any] = {"name": key}
        if each.get("parameterType", "formData") == "formData":
            part["value"] = texts.text(each.get("value", ""))
        elif file := each.get("inputDataFieldName"):
            part |= _file_part(texts, file)
        else:
            continue
        before = [index for index, other in enumerate(parts) if other["name"] == part["name"]]
        if before and job.node.version < _REPEATS:
            parts[before[0]] = part
        else:
            parts.append(part)
    config["form"] = parts
    put_header(config, "Content-Type", None)


# Since this version a form may have several parts of one name.
_REPEATS = 4.2


def _named_files(job: MappingJob, texts: Texts) -> list[dict[str, Any]]:
    """The files of an older node: `field:file`, with commas between; of one alone the field is `file`."""
    written = without_sign(job.option("binaryPropertyName", default="data"))
    if not isinstance(written, str) or written.startswith("="):
        raise NotMapped("which files its form has is computed")
    parts = []
    for each in written.split(","):
        field, _, file = each.strip().partition(":")
        if not file and "," in written:
            raise NotMapped("a file of its form has no field")
        parts.append({"name": field if file else "file", **_file_part(texts, file.split(":")[0] or field)})
    return parts


def _file_part(texts: Texts, written: Any) -> dict[str, Any]:
    """The part of a form for a file of the item; a file that is not there fails the request."""
    name = without_sign(written)
    if not isinstance(name, str) or not name or name.startswith("="):
        raise NotMapped("which files its form has is computed")
    file = texts.scope.files().field(name)
    return {
        "base64": expression(file.field("data").template),
        "fileName": expression(f"{file.field('fileName').template} | default(none)"),
        "contentType": expression(f"{file.field('mimeType').template} | default('application/octet-stream')"),
    }


def _content_type(config: dict[str, Any], kind: str) -> None:
    headers = config.setdefault("headers", {})
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = kind


def _authentication(job: MappingJob, config: dict[str, Any]) -> None:
    kind = job.fixed("authentication", default="none")
    if kind in ("none", ""):
        return
    if kind == "genericCredentialType":
        _generic(job, config, str(job.fixed("genericAuthType", default="")))
    elif kind == "predefinedCredentialType":
        _predefined(job, config, str(job.fixed("nodeCredentialType", default="")))
    elif kind in ("oAuth1", "oAuth2"):
        _generic(job, config, f"{kind}Api")
    else:
        _generic(job, config, f"http{kind[:1].upper()}{kind[1:]}")


def _secret(name: str) -> str:
    return f"{{{{secret.{name}}}}}"


def _generic(job: MappingJob, config: dict[str, Any], kind: str) -> None:
    match kind:
        case "httpBasicAuth":
            put_header(config, "Authorization", None)
            user, password = job.secret(kind, "user", "password")
            config["auth"] = {"type": "basic", "username": _secret(user), "password": _secret(password)}
        case "httpBearerAuth":
            put_header(config, "Authorization", None)
            (token,) = job.secret(kind, "token")
            config["auth"] = {"type": "bearer", "token": _secret(token)}
        case "httpHeaderAuth" | "httpQueryAuth":
            (value,) = job.secret(kind, "value")
            where = "header" if kind == "httpHeaderAuth" else "query"
            config["auth"] = {
                "type": where,
                "name": "Authorization" if where == "header" else "api_key",
                "value": _secret(value),
            }
            job.remarks.append(f"the name of the {where} parameter is part of the credential: enter it in `auth`")
        case "httpCustomAuth":
            (value,) = job.secret(kind, "json")
            config["auth"] = {"type": "custom", "value": _secret(value)}
        case "oAuth2Api":
            (token_url,) = job.secret(kind, "token_url")
            renewing(job, config, kind, _secret(token_url), "header")
            job.remarks.append("the grant, and where the client is named, are part of the credential: see `auth`")
        case "oAuth1Api":
            signing(job, config, kind)
        case "":
            return  # n8n sends no credential, either
        case _:
            (token,) = job.secret(kind, "access_token")
            config["auth"] = {"type": "bearer", "token": _secret(token)}
            job.differs(f"a credential of the type {kind} is sent as a token, which is a secret")


def _predefined(job: MappingJob, config: dict[str, Any], kind: str) -> None:
    if kind in ("httpHeaderAuth", "httpQueryAuth"):
        _generic(job, config, kind)
        return
    if sent_as(job, config, kind):
        return
    if (renewal := renewed_at(kind)) is not None:
        renewing(job, config, kind, *renewal)
        return
    if kind == "googleApi":
        service_account(job, config, kind)
        return
    if kind == "twitterOAuth1Api":
        signing(job, config, kind)
        return
    (token,) = job.secret(kind, "token")
    put_header(config, "Authorization", None)
    config["auth"] = {"type": "bearer", "token": _secret(token)}
    job.differs("its OAuth token is not renewed here: it is a secret" if "OAuth" in kind
                else f"how a credential of the type {kind} is sent is not known: it is a bearer token")  # fmt: skip
