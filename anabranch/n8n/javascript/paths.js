// Fields within fields, as n8n names them: by dots and brackets.
const $paths = (() => {
  const keysIn = path => {
    const keys = path.startsWith('.') ? [''] : [];
    for (const [whole, index, double, single] of path.matchAll(/[^.[\]]+|\[(?:(-?\d+(?:\.\d+)?)|"((?:[^"\\]|\\.)*?)"|'((?:[^'\\]|\\.)*?)')\]|(?=(?:\.|\[\])(?:\.|\[\]|$))/g))
      keys.push(index ?? (double ?? single)?.replace(/\\(\\)?/g, '$1') ?? whole);
    return keys;
  };
  const isDeep = path => /\.|\[(?:[^[\]]*|"(?:[^"\\]|\\.)*?"|'(?:[^'\\]|\\.)*?')\]/.test(path);
  const isObject = value => value !== null && typeof value === 'object';
  // Each path is read once: a sort asks for the same ones at each comparison.
  const read = new Map();
  const keysOf = (path, item) => {
    if (!read.has(path)) read.set(path, {plain: [path], keys: isDeep(path) ? keysIn(path) : null});
    const {plain, keys} = read.get(path);
    return keys === null || (item !== null && item !== undefined && path in Object(item)) ? plain : keys;
  };
  const get = (item, path) => keysOf(path, item).reduce((value, key) => value === null || value === undefined ? undefined : value[key], item);
  const closed = new Set(['__proto__', 'constructor', 'prototype']);
  const set = (item, path, value) => {
    const keys = keysOf(path, item);
    let inner = item;
    for (const [index, key] of keys.entries()) {
      if (closed.has(key)) return item;
      if (index === keys.length - 1) inner[key] = value;
      else if (!isObject(inner[key])) inner[key] = /^(?:0|[1-9]\d*)$/.test(keys[index + 1]) ? [] : {};
      inner = inner[key];
    }
    return item;
  };
  const unset = (item, path) => {
    const keys = keysOf(path, item), inner = keys.slice(0, -1).reduce((value, key) => value?.[key], item);
    if (inner !== null && inner !== undefined) delete Object(inner)[keys[keys.length - 1]];
  };
  const copy = value => Array.isArray(value) ? value.map(copy)
    : isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copy(each)])) : value;
  return {get, set, unset, keysOf, copy, isObject};
})();
