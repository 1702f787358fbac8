"""JavaScript code for what none of our node types does exactly as n8n does it.

Pure. They run in code nodes, behind a line that binds `items` or `lists`, and `options`.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

GET = (
    "const keysOf = path => options.dots === false ? [path] : path.replace(/\\[['\"]?([^\\]'\"]+)['\"]?\\]/g, '.$1').split('.');\n"
    "const get = (item, path) => Object.hasOwn(Object(item), path) ? item[path]"
    " : keysOf(path).reduce((value, key) => value === null || value === undefined ? undefined : value[key], item);"
)

SHUFFLE = """const indexes = items.map((_, index) => index);
for (let last = indexes.length - 1; last > 0; last--) {
  const other = Math.floor(Math.random() * (last + 1));
  [indexes[last], indexes[other]] = [indexes[other], indexes[last]];
}
return {items: indexes.map(index => items[index]), of: indexes};"""

# `inputs` are the lists of items with what they belong to; what is made is `{json, of}`, too.
MERGE = """const plain = value => value && typeof value === 'object' && !Array.isArray(value);
const deep = (target, source) => {
  for (const [key, value] of Object.entries(source)) {
    if (plain(value) && plain(target[key])) target[key] = deep({...target[key]}, value);
    else if (value && typeof value === 'object' && Array.isArray(target[key])) target[key] = deep([...target[key]], value);
    else if (value !== undefined) target[key] = value;
  }
  return target;
};
const together = (...objects) => options.shallow || options.version < 2 ? Object.assign({}, ...objects) : objects.reduce((made, each) => deep(made, each), {});
const suffixed = (entries, suffix) => entries.map(({json, of}) =>
  ({json: Object.fromEntries(Object.entries(json).map(([key, value]) => [`${key}_${suffix}`, value])), of}));
const both = (...entries) => ({json: together(...entries.map(each => each.json)), of: entries.flatMap(each => each.of)});
const equal = (a, b) => a === b || (a !== null && b !== null && typeof a === 'object' && typeof b === 'object' && Array.isArray(a) === Array.isArray(b)
  && Object.keys(a).length === Object.keys(b).length && Object.keys(a).every(key => Object.hasOwn(b, key) && equal(a[key], b[key])));
const inputs = lists.map((list, input) => list.map((json, item) => ({json, of: [{item, input}]})));
const byPosition = () => {
  const [one, two] = options.clash === 'preferInput1' ? inputs.slice(0, 2).reverse() : inputs;
  if (options.version < 3 && !(one.length && two.length))
    return options.version >= 2 || (one.length ? options.join !== 'inner' : options.join === 'outer') ? [...one, ...two] : [];
  const all = options.version < 3 ? [one, two] : inputs;
  const named = options.clash === 'addSuffix' ? all.map((list, index) => suffixed(list, index + 1)) : all;
  const lengths = named.map(list => list.length);
  const count = options.unpaired || options.join === 'outer' ? Math.max(...lengths) : options.join === 'left' ? lengths[0] : Math.min(...lengths);
  const last = options.version < 3 ? [] : inputs[/^preferInput/.test(options.clash) ? options.clash.slice(11) - 1 : inputs.length - 1];
  return Array.from({length: count}, (_, index) => both(...named.flatMap(list => list[index] ?? []), ...(last[index] ? [last[index]] : [])));
};
const allPairs = () => {
  let [one, two] = options.clash === 'preferInput1' ? [inputs[1], inputs[0]] : inputs;
  if (options.clash === 'addSuffix') [one, two] = [suffixed(one, 1), suffixed(two, 2)];
  return one.flatMap(a => two.map(b => both(a, b)));
};
const byOneKey = () => {
  const [[first, second]] = options.pairs, known = {};
  if (!first || !second) return options.join === 'keepKeyMatches' ? [] : inputs[0];
  for (const entry of inputs[1]) { const key = get(entry.json, second); if (key) known[key] = entry; }
  return inputs[0].flatMap(entry => {
    const key = get(entry.json, first);
    if (!['string', 'number'].includes(typeof key)) return options.join === 'removeKeyMatches' ? [entry] : key === null && options.join !== 'keepKeyMatches' ? [entry] : [];
    const match = Object.hasOwn(known, String(key)) ? known[String(key)] : null;
    if (options.join !== 'mergeByKey') return Boolean(match) === (options.join === 'keepKeyMatches') ? [entry] : [];
    const json = JSON.parse(JSON.stringify(entry.json));
    for (const [name, value] of Object.entries(match?.json ?? {})) {
      const free = options.overwrite === 'undefined' ? !Object.hasOwn(json, name) : [null, undefined, ''].includes(json[name]);
      if (name !== second && (options.overwrite === 'always' || free)) json[name] = value;
    }
    return [{json, of: entry.of}];
  });
};
const byFields = () => {
  const [one, two] = inputs, {join, output} = options, clash = options.clash ?? (join === 'enrichInput2' ? 'preferInput1' : 'preferLast');
  if (options.version < 2.1) for (const at of [0, 1]) for (const pair of options.pairs)
    if (!inputs[at].some(({json}) => get(json, pair[at]) !== undefined)) throw new Error(`Field '${pair[at]}' is not present in any of items in 'Input ${at + 1}'`);
  if (!one.length || !two.length) {
    const none = join === 'keepNonMatches' ? (output === 'input1' ? !one.length : output === 'input2' && !two.length)
      : join === 'keepMatches' || (join === 'enrichInput1' && !one.length) || (join === 'enrichInput2' && !two.length);
    return none ? [] : [...one, ...two];
  }
  const matched = [], indexes = new Set(), unmatched = [];
  for (const entry of one) {
    const wanted = options.pairs.map(([field]) => get(entry.json, field));
    let found = wanted.includes(undefined) ? []
      : two.map((_, index) => index).filter(index => options.pairs.every(([, field], at) => equal(wanted[at], get(two[index].json, field))));
    if (options.first) found = found.slice(0, 1);
    found.forEach(index => indexes.add(index));
    if (!found.length) unmatched.push(entry);
    else if (output === 'both' || join.startsWith('enrich')) found.forEach(index => matched.push([entry, [two[index]]]));
    else matched.push([entry, found.map(index => two[index])]);
  }
  const rest = two.filter((_, index) => !indexes.has(index)), ofSource = (entries, _source) => entries.map(({json, of}) => ({json: {...json, _source}, of}));
  const named = (entries, suffix) => clash === 'addSuffix' ? suffixed(entries, suffix) : entries;
  const merged = () => matched.map(([entry, others]) => clash === 'preferInput1' ? both(...others, entry) : both(...named([entry], 1), ...named(others, 2)));
  if (join === 'keepNonMatches') return output === 'input1' ? unmatched : output === 'input2' ? rest : [...ofSource(unmatched, 'input1'), ...ofSource(rest, 'input2')];
  if (join.startsWith('enrich')) return [...merged(), ...(join === 'enrichInput1' ? named(unmatched, 1) : named(rest, 2))];
  const kept = output === 'input1' ? matched.map(([entry]) => entry) : output === 'input2' ? two.filter((_, index) => indexes.has(index)) : merged();
  return join === 'keepEverything' ? [...kept, ...named(unmatched, 1), ...named(rest, 2)] : kept;
};
const made = {position: byPosition, all: allPairs, key: options.version < 2 ? byOneKey : byFields}[options.mode]();
return {items: made.map(each => each.json), of: made.map(each => each.of)};"""

# What collected failures look like: the error of an iteration.
SORTED_OUT = """const items = [], of = [], failed = [], failedOf = [], files = [];
const faultIn = result => result && Object.keys(result).length === 1 && typeof result.error?.code === 'string'
  && typeof result.error.message === 'string' ? result.error : null;
const isFailure = item => {
  const fields = Object.keys(item).length;
  return Boolean(item.error) && (fields === 1 || (fields === 2 && Boolean(item.message)));
};
const put = (item, index, isResult, file) => {
  if (going.errors === 'apart' && !isResult && isFailure(item)) { failed.push({...inputs[index], ...item}); failedOf.push(index); return; }
  items.push(item);
  of.push(index);
  files.push(file ?? null);
};"""

# Code that runs for each item may give null in place of an item: n8n leaves that one out.
RESULTS = """results.forEach((result, index) => {
  if (result === null) return;
  const fault = faultIn(result);
  put(fault ? {error: fault.message} : result, index);
});"""

LISTED_RESULTS = """results.forEach((result, index) => {
  const fault = faultIn(result);
  for (const item of fault ? [{error: fault.message}] : result?.n8nItems ?? [result]) put(item, index);
});"""

# Puts a value into `item` at its path, with what is missing on the way there.
_PUT_WITHIN = """    const keys = keysOf(path);
    let inner = item;
    keys.slice(0, -1).forEach((key, index) => {
      if (inner[key] === null || typeof inner[key] !== 'object') inner[key] = /^\\d+$/.test(keys[index + 1]) ? [] : {};
      inner = inner[key];
    });
    inner[keys[keys.length - 1]] = value;
"""

HTML_ITEMS = """const marks = /^(?:autofocus|autoplay|async|checked|controls|defer|disabled|hidden|loop|multiple|open|readonly|required|scoped|selected)$/i;
const tidy = text => {
  if (text === undefined || text === null) return undefined;
  const trimmed = options.trim ? text.trim() : text;
  return options.clean ? trimmed.trim().replace(/[\\r\\n]/g, '').replace(/\\s+/g, ' ') : trimmed;
};
const valuesOf = (taken, {kind, attribute}) => {
  if (kind === 'html') return taken.map(text => text || undefined);
  if (kind === 'text' && options.emptyIsMissing) return taken.map(text => text || undefined);
  if (kind === 'attribute' && marks.test(attribute)) return taken.map(value => value === null ? undefined : attribute);
  return taken;
};
const itemsIn = found => {
  if (found === null || found === undefined) throw new Error(`No property named "${options.name}" exists!`);
  return (Array.isArray(found) ? found : [found]).map(values => {
    if (values === null) throw new Error('cheerio.load() expects a string');
    const item = {};
    options.values.forEach((value, index) => {
      let taken = values[`v${index}`];
      if (values[`f${index}`]) taken = taken.map((each, at) => each ?? values[`f${index}`][at]);
      const whole = value.kind === 'text' && !value.all && !options.first;
      const given = whole ? valuesOf([taken.join('')], value) : valuesOf(taken, value);
      if (value.all) item[value.key] = given.map(each => tidy(each) ?? null);
      else {
        const one = tidy(given.length ? given[0] : value.kind === 'text' ? (options.emptyIsMissing ? undefined : '') : undefined);
        if (one !== undefined) item[value.key] = one;
      }
    });
    return item;
  });
};"""

HTML_MADE = """const items = [], of = [];
found.forEach((each, index) => { for (const item of itemsIn(each)) { items.push(item); of.push(index); } });
return {items, of};"""

HTML_RESULTS = """found.forEach((each, index) => {
  const fault = faultIn(each);
  if (fault) { put({error: fault.message}, index); return; }
  let made;
  try { made = itemsIn(each); } catch (error) { made = [{error: error.message}]; }
  for (const item of made) put(item, index);
});"""

ANSWERS = """answers.forEach((answer, index) => {
  if (answer === null || answer === undefined) { put({}, index); return; }
  const fault = faultIn(answer);
  if (fault) { put({error: {message: fault.message, name: 'Error', code: fault.code}}, index); return; }
  let body = answer.body;
  if (going.errors !== 'stop' && !as.neverError && answer.status >= 400) {
    const code = answer.status < 500 ? 'ERR_BAD_REQUEST' : 'ERR_BAD_RESPONSE';
    put({error: {message: `${answer.status} - ${JSON.stringify(body)}`, name: 'AxiosError', code, status: answer.status}}, index);
    return;
  }
  const whole = {headers: answer.headers, statusCode: answer.status};
  if (as.format === 'file' || (as.format === 'auto' && $files.is(answer.headers))) {
    put(as.full ? whole : inputs[index] ?? {}, index, true, {...before[index], [as.name]: $files.of(answer, as.fileName)});
    return;
  }
  if (as.format === 'auto' && typeof body?.base64 === 'string' && Object.keys(body).length === 1
    && !/json/.test(answer.headers['content-type'] ?? '')) body = Buffer.from(body.base64, 'base64').toString();
  if (as.format === 'text') body = typeof body === 'string' ? body : JSON.stringify(body);
  if (as.format === 'json' && typeof body === 'string') body = body === '' ? {} : JSON.parse(body);
  if (as.full) {
    put({...(as.format === 'text' ? {[as.name]: body} : {body}), ...whole}, index);
    return;
  }
  const listed = Array.isArray(body);
  for (const each of listed ? body : [body ?? ''])
    put(each !== null && typeof each === 'object' && !Array.isArray(each) ? each : {[as.name]: each}, index, listed);
});"""

CONVERT = """const convert = (value, kind) => {
  if (value === undefined || value === null || kind === 'any' || kind.startsWith('old')) return value ?? null;
  if (kind === 'string') return typeof value === 'object' ? JSON.stringify(value) : String(value);
  const wrong = () => { throw Object.assign(new Error(`a field expects ${kind} but got ${JSON.stringify(value)}`), {fails: true}); };
  if (kind === 'number') return Number.isNaN(Number(value)) ? wrong() : Number(value);
  if (kind === 'boolean') {
    if (typeof value === 'boolean') return value;
    if (typeof value === 'string' && /^(true|false)$/i.test(value)) return value.toLowerCase() === 'true';
    const number = typeof value === 'string' && value.trim() === '' ? NaN : Number(value);
    return number === 0 || number === 1 ? number === 1 : wrong();
  }
  let made = value;
  if (typeof value === 'string') try { made = JSON.parse(value); } catch { wrong(); }
  return made === null || typeof made !== 'object' || Array.isArray(made) !== (kind === 'array') ? wrong() : made;
};"""

PUT = (
    f"""const made = {{}};
{CONVERT}
"""
    + """const put = (name, value, kind) => {
  const keys = dots ? String(name).split('.') : [String(name)];
  let inner = made;
  for (const key of keys.slice(0, -1)) inner = inner[key] ??= {};
  inner[keys[keys.length - 1]] = convert(value, kind);
};"""
)

PUT_BESIDE = (
    f"""{CONVERT}
"""
    + """const given = [];
const put = (name, value, kind) => { given.push([String(name), convert(value, kind)]); };
const whole = kept => {
  const item = JSON.parse(JSON.stringify(kept));
  for (const [path, value] of given) {
"""
    + _PUT_WITHIN
    + """  }
  return item;
};"""
)

XML_READ = """return items.map(item => {
  if (item[name] === undefined) throw new Error(`Item has no JSON property called "${name}"`);
  return $xml.parse(item[name], options) ?? {};
})"""

XML_WRITTEN = "return items.map(item => ({[name]: $xml.build(item, options)}))"

# The body of a request to a webhook that is XML or plain text, as n8n reads it; undefined if there is none.
BODY_TEXT = """const header = request.headers['content-type'], type = header === undefined ? undefined : header.split(';')[0].toLowerCase();
const textBody = () => {
  if (!request.body) return undefined;
  const charsets = header.split(';').slice(1).map(each => each.split('=')).filter(([key]) => key.trim().toLowerCase() === 'charset');
  const charset = decodeURIComponent(charsets.at(-1)?.[1] ?? 'utf-8').trim().replace(/^"(.*)"$/, '$1').toLowerCase();
  const text = Buffer.from(request.body, request.bodyEncoding === 'base64' ? 'base64' : 'utf8').toString(charset);
  return type === 'text/plain' ? text : $xml.parse(text, {explicitArray: false, mergeAttrs: false, normalize: true, normalizeTags: true});
};
"""

# The item that n8n makes of a request to a webhook, and its files.
REQUEST = """const item = {headers: request.headers, params: {}, query: request.query};
const given = files => ({item: {...item, webhookUrl: request.url ?? null, executionMode: 'production'}, files});
const raw = () => {
  if (request.bodyEncoding === 'base64') return request.body;
  if (request.body === null && (request.json !== null || request.form !== null)) throw new Error('the body is too large to be kept as it came');
  return Buffer.from(request.body ?? '').toString('base64');
};
const tidy = name => {
  const base = name.replace(/\\\\/g, '/').replace(/\\/+$/, '').split('/').pop().replace(/\\0/g, '');
  return !base || /^\\.+$/.test(base) ? 'untitled' : base;
};
const whole = () => {
  item.body = {};
  const data = raw();
  if (!data) return null;
  const name = $files.disposed(request.headers['content-disposition']) ?? unnamed;
  return {[options.name || 'data']: $files.sent(data, tidy(name), type ?? 'application/octet-stream')};
};
const parsed = () => {
  const is = (...kinds) => kinds.some(kind => options.version > 1 ? String(type).startsWith(kind) : type === kind);
  if (is('application/json')) return request.json ?? undefined;
  if (is('application/x-www-form-urlencoded')) return request.form ?? undefined;
  if (type === 'text/plain' || /[+\\/]xml$/.test(String(type))) return textBody();
};
if (options.binaryData) return given(whole());
if (type === 'multipart/form-data') {
  item.body = {...request.form};
  const files = {};
  let count = 0;
  for (const [key, found] of Object.entries(request.files ?? {})) {
    [found].flat().forEach((file, index) => {
      if (file.mimeType === null) { item.body[key] = Buffer.from(file.base64, 'base64').toString(); return; }
      const name = key.replace(/\\[\\]$/, '') + (Array.isArray(found) ? index : '');
      files[options.name ? `${options.name}${count}` : name] = $files.sent(file.base64, tidy(file.fileName ?? unnamed), file.mimeType);
      count += 1;
    });
  }
  return given(count ? files : null);
}
const body = parsed();
if (body === undefined && options.version > 1 && !options.rawBody) return given(whole());
if (body !== undefined) item.body = body;
return given(options.rawBody ? {data: {data: raw(), mimeType: type ?? 'application/json'}} : null);"""
