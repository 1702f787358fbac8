/* Making and changing elements: the one place where values from outside become something to see.
 *
 * Called by every view. Text goes in as text and nowhere else: nothing here reads HTML, so a title
 * that looks like markup is shown as it was written. What has not changed is not touched, so that
 * nothing flickers, no selection is lost and a screen reader is not told the same twice.
 */

/** Longest text that one block shows; a browser gets slow far above it, a reader far below. */
const SHOWN_CHARACTERS_MAX = 20_000;

/** An element with attributes (`onclick` and such are listeners) and children: elements, or text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** The element of the page with this id. */
export function byId(id) {
  return document.getElementById(id);
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

/** Show or hide, with a text to show; null hides. */
export function setNote(target, text) {
  target.hidden = text === null;
  if (text !== null) setText(target, text);
}

/** Make a list hold one element per item, in order; `make(item)` once per key, `update(element, item)` always. */
export function syncList(list, items, keyOf, make, update) {
  const present = new Map([...list.children].map((child) => [child.dataset.key, child]));
  let place = list.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = present.get(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    present.delete(key);
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else list.insertBefore(child, place);
  }
  for (const gone of present.values()) gone.remove();
}

/** A value as people read JSON, cut where it gets too long to look at. */
export function readable(value) {
  const text = JSON.stringify(value, null, 2);
  if (text === undefined) return "";
  if (text.length <= SHOWN_CHARACTERS_MAX) return text;
  return `${text.slice(0, SHOWN_CHARACTERS_MAX)}\n… and ${text.length - SHOWN_CHARACTERS_MAX} characters more`;
}

/** A dot and a word for a status; `setStatus` changes it later. */
export function statusBadge(status) {
  return setStatus(element("span", { class: "status" }), status);
}

export function setStatus(badge, status) {
  setAttribute(badge, "data-status", status.toLowerCase());
  setText(badge, status.toLowerCase());
  return badge;
}
