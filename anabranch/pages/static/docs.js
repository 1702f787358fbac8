/* The page at `/docs`: the operations of the API, to be read and tried.
 *
 * Loaded by docs.html after the library that draws the operations. It uses the key that the root
 * page keeps in this tab, so that who is signed in there can try things here without another word.
 */

const KEY = "anabranch.key";

const DESCRIPTION = "/openapi.json";

takeKeyFromAddress();
document.getElementById("state").textContent = key()
  ? "Requests use the key of this tab."
  : "To try requests, sign in on the root page or press Authorize.";
window.SwaggerUIBundle({
  url: DESCRIPTION,
  dom_id: "#operations",
  deepLinking: true,
  // The validator is a server elsewhere: nothing of this page goes anywhere else.
  validatorUrl: null,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  requestInterceptor: withKey,
});

/** Requests to this server carry the tab's key unless another one was typed in. */
function withKey(request) {
  const ours = new URL(request.url, location.href).origin === location.origin;
  if (ours && key() && !request.headers.Authorization) request.headers.Authorization = `Bearer ${key()}`;
  return request;
}

/** Take the key that came with the address, and remove it from there and from the history at once. */
function takeKeyFromAddress() {
  const address = new URL(location.href);
  const given = address.searchParams.get("key");
  if (given === null) return;
  address.searchParams.delete("key");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
  if (given) sessionStorage.setItem(KEY, given);
}

function key() {
  return sessionStorage.getItem(KEY);
}
