"""Credentials of n8n: how they are sent with a request, in headers, in the query, or as user and password.

Pure. In texts `{part}` stands for a secret; an export has none of them. For services that give out tokens by OAuth 2
the table has the address where a token is renewed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.n8n.job import MappingJob

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class SentCredential:
    """The places of a credential's parts in a request."""

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


# Where the services renew tokens of OAuth 2, and whether the client is named in the body or in a header.
_GOOGLE = "https://oauth2.googleapis.com/token"
_MICROSOFT = "https://login.microsoftonline.com/common/oauth2/v2.0/token"
_IN_BODY = {
    "acuitySchedulingOAuth2Api": "https://acuityscheduling.com/oauth2/token",
    "asanaOAuth2Api": "https://app.asana.com/-/oauth_token",
    "bitlyOAuth2Api": "https://api-ssl.bitly.com/oauth/access_token",
    "boxOAuth2Api": "https://api.box.com/oauth2/token",
    "ciscoWebexOAuth2Api": "https://webexapis.com/v1/access_token",
    "driftOAuth2Api": "https://driftapi.com/oauth2/token",
    "gmailOAuth2": _GOOGLE,
    "gSuiteAdminOAuth2Api": _GOOGLE,
    "harvestOAuth2Api": "https://id.getharvest.com/api/v2/oauth2/token",
    "helpScoutOAuth2Api": "https://api.helpscout.net/v2/oauth2/token",
    "highLevelOAuth2Api": "https://services.leadconnectorhq.com/oauth/token",
    "hubspotDeveloperApi": "https://api.hubapi.com/oauth/v1/token",
    "hubspotOAuth2Api": "https://api.hubapi.com/oauth/v1/token",
    "keapOAuth2Api": "https://api.infusionsoft.com/token",
    "linearOAuth2Api": "https://api.linear.app/oauth/token",
    "linkedInCommunityManagementOAuth2Api": "https://www.linkedin.com/oauth/v2/accessToken",
    "linkedInOAuth2Api": "https://www.linkedin.com/oauth/v2/accessToken",
    "miroOAuth2Api": "https://api.miro.com/v1/oauth/token",
    "raindropOAuth2Api": "https://api.raindrop.io/v1/oauth/access_token",
    "sentryIoOAuth2Api": "https://sentry.io/oauth/token/",
    "stravaOAuth2Api": "https://www.strava.com/oauth/token",
    "youTubeOAuth2Api": _GOOGLE,
    "zohoOAuth2Api": "https://accounts.zoho.com/oauth/v2/token",
}
_IN_HEADER = {
    "airtableOAuth2Api": "https://airtable.com/oauth2/v1/token",
    "calendlyOAuth2Api": "https://auth.calendly.com/oauth/token",
    "discordOAuth2Api": "https://discord.com/api/oauth2/token",
    "dropboxOAuth2Api": "https://api.dropboxapi.com/oauth2/token",
    "formstackOAuth2Api": "https://www.formstack.com/api/v2/oauth2/token",
    "getResponseOAuth2Api": "https://api.getresponse.com/v3/token",
    "gongOAuth2Api": "https://app.gong.io/oauth2/generate-customer-token",
    "pagerDutyOAuth2Api": "https://app.pagerduty.com/oauth/token",
    "pipedriveOAuth2Api": "https://oauth.pipedrive.com/oauth/token",
    "quickBooksOAuth2Api": "https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer",
    "redditOAuth2Api": "https://www.reddit.com/api/v1/access_token",
    "salesforceOAuth2Api": "https://login.salesforce.com/services/oauth2/token",
    "spotifyOAuth2Api": "https://accounts.spotify.com/api/token",
    "twitterOAuth2Api": "https://api.twitter.com/2/oauth2/token",
    "typeformOAuth2Api": "https://api.typeform.com/oauth/token",
    "xeroOAuth2Api": "https://identity.xero.com/connect/token",
    "zoomOAuth2Api": "https://zoom.us/oauth/token",
}

# They send another token than the access token, or run out with another status.
_OF_THEIR_OWN = ("microsoftAzure", "microsoftDynamics")


def renewed_at(kind: str) -> tuple[str, str] | None:
    """The address that renews a token of this type, and the place of the client's name; None: not known."""
    if kind.startswith("google") and "OAuth2" in kind:
        return _GOOGLE, "body"
    if kind.startswith("microsoft") and kind.endswith("OAuth2Api") and not kind.startswith(_OF_THEIR_OWN):
        return _MICROSOFT, "body"
    if kind in _IN_BODY:
        return _IN_BODY[kind], "body"
    return (_IN_HEADER[kind], "header") if kind in _IN_HEADER else None


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


def service_account(job: MappingJob, config: dict[str, Any], kind: str) -> None:
    """Enter a service account of Google."""
    email, key, scopes = job.secret(kind, "email", "private_key", "scopes")
    put_header(config, "Authorization", None)
    config["auth"] = {
        "type": "serviceAccount",
        "email": f"{{{{secret.{email}}}}}",
        "privateKey": f"{{{{secret.{key}}}}}",
        "scope": f"{{{{secret.{scopes}}}}}",
    }
    job.remarks.append("if the service account acts for a user: enter the `subject` in `auth`")


def signing(job: MappingJob, config: dict[str, Any], kind: str) -> None:
    """Enter a credential of OAuth 1, with which n8n sends no headers of the node."""
    names = job.secret(kind, "consumer_key", "consumer_secret", "token", "token_secret")
    parts = zip(("consumerKey", "consumerSecret", "token", "tokenSecret"), names, strict=True)
    config["auth"] = {"type": "oauth1", **{part: f"{{{{secret.{name}}}}}" for part, name in parts}}
    if "base64" in config or ("body" in config and not _is_form(config)):
        job.differs("with OAuth 1 n8n sends no type of such a body")
    kept = {"content-type"}
    config["headers"] = {name: value for name, value in config.get("headers", {}).items() if name.lower() in kept}
    if kind == "oAuth1Api":
        job.remarks.append("it signs with HMAC-SHA1: where the credential says another method, enter it in `auth`")


def _is_form(config: dict[str, Any]) -> bool:
    kinds = [str(value) for name, value in config.get("headers", {}).items() if name.lower() == "content-type"]
    return any(kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data")) for kind in kinds)


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
