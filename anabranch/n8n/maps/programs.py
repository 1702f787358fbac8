"""Programs in JavaScript for what no other node of ours does exactly as n8n does it.

Pure. They run in code nodes, behind a line that binds `items` or `lists`, and `options`.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

GET = (
    "const keysOf = path => options.dots === false ? [path] : path.replace(/\\[['\"]?([^\\]'\"]+)['\"]?\\]/g, '.$1').split('.');\n"
    "const get = (item, path) => Object.hasOwn(Object(item), path) ? item[path]"
    " : keysOf(path).reduce((value, key) => value === null || value === undefined ? undefined : value[key], item);"
)

SPLIT_OUT = """const without = (item, path) => {
  const copy = JSON.parse(JSON.stringify(item)), keys = Object.hasOwn(copy, path) ? [path] : keysOf(path);
  const inner = keys.slice(0, -1).reduce((value, key) => value?.[key], copy);
  if (inner && typeof inner === 'object') delete inner[keys[keys.length - 1]];
  return copy;
};
const made = [], of = [];
items.forEach((item, index) => {
  const rows = [];
  options.fields.forEach((field, place) => {
    let value = get(item, field);
    if (value === undefined) value = [];
    if (typeof value !== 'object' || value === null) value = [value];
    if (!Array.isArray(value)) value = Object.values(value);
    const name = options.into[place] ?? '';
    value.forEach((each, row) => {
      rows[row] ??= {};
      const isObject = typeof each === 'object' && each !== null;
      if (isObject && options.include === 'noOtherFields' && name === '' && options.fields.length === 1)
        rows[row] = {...rows[row], ...each};
      else rows[row][name || field] = each;
    });
  });
  for (const row of rows) {
    let whole = row;
    if (options.include === 'allOtherFields') whole = {...options.fields.reduce(without, item), ...row};
    if (options.include === 'selectedOtherFields') for (const field of options.other) row[field] = get(item, field) ?? null;
    made.push(whole);
    of.push(index);
  }
});
return {items: made, of};"""

SOME_FIELDS = """return items
  .map(item => Object.fromEntries(Object.entries(item)
    .filter(([name]) => !drop.includes(name) && (!keep.length || keep.includes(name)))))
  .filter(item => Object.keys(item).length);"""

AGGREGATE = """const made = {};
for (const [field, name] of options.fields) {
  const values = [];
  for (const item of items) {
    let value = get(item, field);
    if (!options.keepMissing) {
      if (Array.isArray(value)) value = value.filter(each => each !== null);
      else if (value === null || value === undefined) continue;
    }
    if (Array.isArray(value) && options.merge) values.push(...value);
    else values.push(value ?? null);
  }
  const keys = options.dots ? name.split('.') : [name];
  let inner = made;
  for (const key of keys.slice(0, -1)) inner = inner[key] ??= {};
  inner[keys[keys.length - 1]] = values;
}
return made;"""

SORT = """const lower = value => typeof value === 'string' ? value.toLowerCase() : value;
const places = items.map((_, index) => index).sort((one, other) => {
  for (const {field, order} of options.by) {
    const a = lower(get(items[one], field)), b = lower(get(items[other], field)), way = order === 'descending' ? -1 : 1;
    if (a === b || JSON.stringify(a) === JSON.stringify(b)) continue;
    if (a < b) return -way;
    if (a > b) return way;
  }
  return 0;
});
return {items: places.map(place => items[place]), of: places};"""

SHUFFLE = """const places = items.map((_, index) => index);
for (let last = places.length - 1; last > 0; last--) {
  const other = Math.floor(Math.random() * (last + 1));
  [places[last], places[other]] = [places[other], places[last]];
}
return {items: places.map(place => items[place]), of: places};"""

UNIQUE = """const sorted = value => value && typeof value === 'object' && !Array.isArray(value)
  ? Object.fromEntries(Object.keys(value).sort().map(key => [key, sorted(value[key])]))
  : Array.isArray(value) ? value.map(sorted) : value;
const names = item => options.compare === 'selectedFields' ? options.fields
  : Object.keys(item).filter(name => !options.fields.includes(name)).sort();
const seen = new Set(), made = [], of = [];
items.forEach((item, index) => {
  const key = JSON.stringify(names(item).map(name => [name, sorted(get(item, name)) ?? null]));
  if (seen.has(key)) return;
  seen.add(key);
  made.push(options.only && options.fields.length
    ? Object.fromEntries(options.fields.map(name => [name, get(item, name) ?? null])) : item);
  of.push(index);
});
return {items: made, of};"""

SUMMARIZE = """const prefix = {append: 'appended_', average: 'average_', concatenate: 'concatenated_', count: 'count_',
  countUnique: 'unique_count_', max: 'max_', min: 'min_', sum: 'sum_'};
const empty = value => value === undefined || value === null || value === '';
const figure = (rows, each) => {
  const all = rows.map(item => get(item, each.field)), given = each.includeEmpty ? all : all.filter(value => !empty(value));
  const numbers = all.map(value => value).filter(value => typeof value === 'number');
  switch (each.aggregation ?? 'count') {
    case 'append': return given.map(value => value ?? null);
    case 'concatenate': {
      const text = each.separateBy === 'other' ? each.customSeparator ?? '' : each.separateBy ?? ',';
      return given.map(value => typeof value === 'object' && value !== null ? JSON.stringify(value)
        : value === undefined ? 'undefined' : String(value)).join(text);
    }
    case 'sum': return numbers.reduce((sum, value) => sum + value, 0);
    case 'average': return numbers.length ? numbers.reduce((sum, value) => sum + value, 0) / numbers.length : null;
    case 'min': case 'max': {
      const known = all.filter(value => !empty(value));
      return known.length ? known.reduce((best, value) => (each.aggregation === 'min' ? value < best : value > best) ? value : best) : null;
    }
    case 'countUnique': return new Set(given.map(value => JSON.stringify(value))).size;
    default: return given.length;
  }
};
const groups = new Map();
for (const item of items) {
  const values = options.by.map(field => get(item, field));
  if (options.skipEmpty && values.some(empty)) continue;
  const key = JSON.stringify(values);
  if (!groups.has(key)) groups.set(key, {values, rows: []});
  groups.get(key).rows.push(item);
}
if (!options.by.length && !groups.size) groups.set('', {values: [], rows: []});
return [...groups.values()].map(({values, rows}) => {
  const made = {};
  options.by.forEach((field, place) => { made[field.replaceAll('.', '_')] = values[place] ?? null; });
  for (const each of options.fields) made[`${prefix[each.aggregation ?? 'count']}${each.field.replaceAll('.', '_')}`] = figure(rows, each);
  return made;
});"""

MERGE = """const plain = value => value && typeof value === 'object' && !Array.isArray(value);
const deep = (target, source) => {
  for (const [key, value] of Object.entries(source)) {
    if (plain(value) && plain(target[key])) target[key] = deep({...target[key]}, value);
    else if (Array.isArray(value) && Array.isArray(target[key])) target[key] = Object.assign([], target[key], value);
    else if (value !== undefined) target[key] = value;
  }
  return target;
};
const together = (...objects) => options.shallow ? Object.assign({}, ...objects) : objects.reduce((made, each) => deep(made, each), {});
const suffixed = (item, suffix) => Object.fromEntries(Object.entries(item).map(([key, value]) => [`${key}_${suffix}`, value]));
const both = (one, others) => options.clash === 'addSuffix' ? together(suffixed(one, 1), ...others.map(each => suffixed(each, 2)))
  : options.clash === 'preferInput1' || (options.clash === undefined && options.join === 'enrichInput2')
  ? together(...others, one) : together(one, ...others);
options.clash ??= undefined;
const equal = (a, b) => a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b));
const [one, two] = lists;
if (options.mode === 'position') {
  const lengths = lists.map(list => list.length);
  const count = options.unpaired || options.join === 'outer' ? Math.max(...lengths)
    : options.join === 'left' ? lengths[0] : Math.min(...lengths);
  return Array.from({length: count}, (_, place) => {
    const found = lists.map(list => list[place] ?? {});
    return found.length === 2 ? both(found[0], [found[1]]) : options.clash === 'preferInput1' ? together(...found.toReversed()) : together(...found);
  });
}
if (options.mode === 'all')
  return lists.slice(1).reduce((made, list) => made.flatMap(a => list.map(b => both(a, [b]))), one);
const matched = [], matchedPlaces = new Set(), unmatched = [];
for (const item of one) {
  const wanted = options.pairs.map(([field]) => get(item, field));
  let places = wanted.includes(undefined) ? []
    : two.map((_, place) => place).filter(place => options.pairs.every(([, field], at) => equal(wanted[at], get(two[place], field))));
  if (options.first || options.join === 'enrichInput1First') places = places.slice(0, 1);
  places.forEach(place => matchedPlaces.add(place));
  if (!places.length) unmatched.push(item);
  else if (options.output === 'both' || options.join.startsWith('enrich')) places.forEach(place => matched.push([item, [two[place]]]));
  else matched.push([item, places.map(place => two[place])]);
}
const rest = two.filter((_, place) => !matchedPlaces.has(place));
switch (options.join) {
  case 'keepMatches':
    if (options.output === 'input1') return matched.map(([item]) => item);
    if (options.output === 'input2') return two.filter((_, place) => matchedPlaces.has(place));
    return matched.map(([item, others]) => both(item, others));
  case 'keepNonMatches':
    return options.output === 'input1' ? unmatched : options.output === 'input2' ? rest : [...unmatched, ...rest];
  case 'keepEverything':
    return [...matched.map(([item, others]) => both(item, others)), ...unmatched, ...rest];
  case 'enrichInput1':
    return [...matched.map(([item, others]) => both(item, others)), ...unmatched];
  case 'enrichInput2':
    return [...matched.map(([item, others]) => both(item, others)), ...rest];
  case 'removeKeyMatches': return unmatched;
  case 'keepKeyMatches': return matched.map(([item]) => item);
  default: {
    const found = new Map(matched.map(([item, others]) => [item, both(item, others)]));
    return one.map(item => found.get(item) ?? item);
  }
}"""

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

RESULTS = """results.forEach((result, index) => {
  const fault = faultIn(result);
  put(fault ? {error: fault.message} : result, index);
});"""

LISTED_RESULTS = """results.forEach((result, index) => {
  const fault = faultIn(result);
  for (const item of fault ? [{error: fault.message}] : result?.n8nItems ?? [result]) put(item, index);
});"""

SET_WITHIN = """const made = kept.map((base, index) => {
  const item = JSON.parse(JSON.stringify(base));
  for (const [path, value] of Object.entries(given[index])) {
    const keys = keysOf(path);
    let inner = item;
    keys.slice(0, -1).forEach((key, place) => {
      if (inner[key] === null || typeof inner[key] !== 'object') inner[key] = /^\\d+$/.test(keys[place + 1]) ? [] : {};
      inner = inner[key];
    });
    inner[keys[keys.length - 1]] = value;
  }
  return item;
});"""

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
    options.values.forEach((value, place) => {
      let taken = values[`v${place}`];
      if (values[`f${place}`]) taken = taken.map((each, at) => each ?? values[`f${place}`][at]);
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
    const keys = keysOf(path);
    let inner = item;
    keys.slice(0, -1).forEach((key, place) => {
      if (inner[key] === null || typeof inner[key] !== 'object') inner[key] = /^\\d+$/.test(keys[place + 1]) ? [] : {};
      inner = inner[key];
    });
    inner[keys[keys.length - 1]] = value;
  }
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
if (options.binaryData) return {item, files: whole()};
if (type === 'multipart/form-data') {
  item.body = {...request.form};
  const files = {};
  let count = 0;
  for (const [key, found] of Object.entries(request.files ?? {})) {
    [found].flat().forEach((file, place) => {
      if (file.mimeType === null) { item.body[key] = Buffer.from(file.base64, 'base64').toString(); return; }
      const name = key.replace(/\\[\\]$/, '') + (Array.isArray(found) ? place : '');
      files[options.name ? `${options.name}${count}` : name] = $files.sent(file.base64, tidy(file.fileName ?? unnamed), file.mimeType);
      count += 1;
    });
  }
  return {item, files: count ? files : null};
}
const body = parsed();
if (body === undefined && options.version > 1 && !options.rawBody) return {item, files: whole()};
if (body !== undefined) item.body = body;
return {item, files: options.rawBody ? {data: {data: raw(), mimeType: type ?? 'application/json'}} : null};"""
