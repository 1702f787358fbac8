"""How the credentials of n8n are sent with a request: in headers, in the query, or as a user and a password.

Pure. In texts `{part}` stands for a secret; an export has none of them. For services that give out tokens by OAuth 2
the table has the address where a token is renewed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.n8n.job import MappingJob

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class SentCredential:
    """Where the parts of a credential stand in a request."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    basic: tuple[str, str] | None = None


def _bearer(**more: str) -> SentCredential:
    return SentCredential({"Authorization": "Bearer {token}", **{name.replace("_", "-"): more[name] for name in more}})


def _header(name: str, text: str = "{key}") -> SentCredential:
    return SentCredential({name: text})


def _query(name: str) -> SentCredential:
    return SentCredential(query={name: "{key}"})


def _basic(user: str = "{user}", other: str = "{password}") -> SentCredential:
    return SentCredential(basic=(user, other))


SENT: Mapping[str, SentCredential] = {
    **dict.fromkeys(
        ("huggingFaceApi", "openAiApi", "slackApi", "airtableTokenApi", "mistralCloudApi", "cloudflareApi",
         "todoistApi", "hubspotAppToken", "openRouterApi", "deepSeekApi", "groqApi", "perplexityApi",
         "apifyApi", "stripeApi",
         "sendGridApi", "cohereApi", "whatsAppApi", "magento2Api", "xAiApi", "jinaAiApi", "digitalOceanApi",
         "netlifyApi", "webflowApi", "asanaApi", "httpBearerAuth", "sentryIoApi",
         "jiraSoftwareServerPatApi", "convertApi", "slackOAuth2Api", "githubOAuth2Api", "clickUpOAuth2Api",
         "todoistOAuth2Api", "eventbriteOAuth2Api", "mondayComOAuth2Api", "mondayComApi"),
        _bearer(),
    ),
    "notionApi": _bearer(Notion_Version="2022-02-22"),
    "intercomApi": _bearer(Accept="application/json"),
    "supabaseApi": SentCredential({"apikey": "{key}", "Authorization": "Bearer {key}"}),
    "typeformApi": _header("Authorization", "bearer {token}"),
    "githubApi": _header("Authorization", "token {token}"),
    "discordBotApi": _header("Authorization", "Bot {token}"),
    "erpNextApi": _header("Authorization", "token {key}:{secret}"),
    "clickUpApi": _header("Authorization"),
    "linearApi": _header("Authorization"),
    "qdrantApi": _header("api-key"),
    "sendInBlueApi": _header("api-key"),
    "pineconeApi": _header("Api-Key"),
    "anthropicApi": _header("x-api-key"),
    "clockifyApi": _header("X-Api-Key"),
    "apiTemplateIoApi": _header("X-API-KEY"),
    "n8nApi": _header("X-N8N-API-KEY"),
    "elevenLabsApi": _header("xi-api-key"),
    "gitlabApi": _header("Private-Token"),
    "virusTotalApi": _header("x-apikey"),
    "shopifyAccessTokenApi": _header("X-Shopify-Access-Token"),
    "nocoDbApiToken": _header("xc-token"),
    "postmarkApi": _header("X-Postmark-Server-Token"),
    "phantombusterApi": _header("X-Phantombuster-Key"),
    "alienVaultApi": _header("X-OTX-API-KEY"),
    "dropcontactApi": SentCredential({"X-Access-Token": "{key}", "User-Agent": "n8n"}),
    "googlePalmApi": _query("key"),
    "facebookGraphApi": _query("access_token"),
    "serpApi": _query("api_key"),
    "nasaApi": _query("api_key"),
    "pipedriveApi": _query("api_token"),
    "calApi": _query("apiKey"),
    "hubspotApi": _query("hapikey"),
    "openWeatherMapApi": _query("appid"),
    "trelloApi": SentCredential(query={"key": "{key}", "token": "{token}"}),
    **dict.fromkeys(
        ("wordpressApi", "jiraSoftwareCloudApi", "twilioApi", "wooCommerceApi", "elasticsearchApi",
         "serviceNowBasicApi", "freshdeskApi", "togglApi", "nextCloudApi", "httpBasicAuth"),
        _basic(),
    ),
    "zendeskApi": _basic("{email}/token", "{token}"),
    "mailgunApi": _basic("api", "{key}"),
    "mailchimpApi": _header("Authorization", "apikey {key}"),
    "qualysApi": SentCredential({"X-Requested-With": "{requested_with}"}, basic=("{user}", "{password}")),
    "lemlistApi": SentCredential({"User-Agent": "n8n"}, basic=("", "{key}")),
}  # fmt: skip


# Where the services renew tokens of OAuth 2, and whether the client is named in the body or in a header. Those that
# replace the refresh token each time it is used are left out: here it is a secret that nothing writes.
_GOOGLE = "https://oauth2.googleapis.com/token"
_MICROSOFT = "https://login.microsoftonline.com/common/oauth2/v2.0/token"
RENEWED: Mapping[str, tuple[str, str]] = {
    "gmailOAuth2": (_GOOGLE, "body"),
    "youTubeOAuth2Api": (_GOOGLE, "body"),
    "hubspotOAuth2Api": ("https://api.hubapi.com/oauth/v1/token", "body"),
    "linkedInOAuth2Api": ("https://www.linkedin.com/oauth/v2/accessToken", "body"),
    "spotifyOAuth2Api": ("https://accounts.spotify.com/api/token", "header"),
    "zohoOAuth2Api": ("https://accounts.zoho.com/oauth/v2/token", "body"),
    "asanaOAuth2Api": ("https://app.asana.com/-/oauth_token", "body"),
    "salesforceOAuth2Api": ("https://login.salesforce.com/services/oauth2/token", "header"),
    "redditOAuth2Api": ("https://www.reddit.com/api/v1/access_token", "header"),
    "dropboxOAuth2Api": ("https://api.dropboxapi.com/oauth2/token", "header"),
}


def renewed_at(kind: str) -> tuple[str, str] | None:
    """Where a token of this type is renewed, and where the client is named; None: it is not known here."""
    if kind.startswith("google") and "OAuth2" in kind:
        return _GOOGLE, "body"
    if kind.startswith("microsoft") and kind.endswith("OAuth2Api") and "Azure" not in kind:
        return _MICROSOFT, "body"
    return RENEWED.get(kind)


def renewing(job: MappingJob, config: dict[str, Any], kind: str, token_url: str, client_in: str) -> None:
    """Enter a credential whose token is renewed."""
    client, key, refresh = job.secret(kind, "client_id", "client_secret", "refresh_token")
    put_header(config, "Authorization", None)
    config["auth"] = {
        "type": "oauth2",
        "tokenURL": token_url,
        "clientIn": client_in,
        "clientID": f"{{{{secret.{client}}}}}",
        "clientSecret": f"{{{{secret.{key}}}}}",
        "refreshToken": f"{{{{secret.{refresh}}}}}",
    }
    job.remarks.append("its refresh token is a secret: what n8n asked for in the browser is entered here")


def sent_as(job: MappingJob, config: dict[str, Any], kind: str) -> bool:
    """Enter a credential of a type into the config of a request; False: the type is not known."""
    sent = SENT.get(kind)
    if sent is None:
        return False
    texts = [*sent.headers.values(), *sent.query.values(), *(sent.basic or ())]
    parts = list(dict.fromkeys(part for text in texts for part in _PART.findall(text)))
    secrets = dict(zip(parts, job.secret(kind, *parts), strict=True))

    def filled(text: str) -> str:
        return _PART.sub(lambda part: f"{{{{secret.{secrets[part[1]]}}}}}", text)

    for name, text in sent.headers.items():
        put_header(config, name, filled(text))
    for name, text in sent.query.items():
        config.setdefault("query", {})[name] = filled(text)
    if sent.basic is not None:
        user, password = map(filled, sent.basic)
        put_header(config, "Authorization", None)
        config["auth"] = {"type": "basic", "username": user, "password": password}
    return True


def put_header(config: dict[str, Any], name: str, value: str | None) -> None:
    """Set a header in the place of one that the node gives itself, whatever its case; None: there is none."""
    headers = config.setdefault("headers", {})
    for given in [each for each in headers if each.lower() == name.lower()]:
        del headers[given]
    if value is not None:
        headers[name] = value
