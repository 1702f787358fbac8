"""JavaScript code for n8n's nodes that work on lists of items.

Pure. They run in code nodes, behind a line that binds `items`, and one that binds `options`.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

from anabranch.n8n.javascript import prelude

PATHS = (
    prelude("paths")
    + "const get = (item, path) => options.dots === false ? item[path] : $paths.get(item, path);\n"
    + "const set = (item, path, value) => { if (options.dots === false) item[path] = value; else $paths.set(item, path, value); };\n"
    + "const unset = (item, path) => { if (options.dots === false) delete item[path]; else $paths.unset(item, path); };\n"
)

SPLIT_OUT = (
    PATHS
    + """const missing = field => { throw new Error(`Couldn't find the field '${field}' in the input data`); };
const listOf = (item, field) => {
  const value = get(item, field);
  if (value === undefined) return options.needsField ? missing(field) : [];
  if (Array.isArray(value)) return value;
  if (options.needs === 'list' || (options.needs === 'object' && !$paths.isObject(value)))
    throw new Error(`The provided field '${field}' is not an array${options.needs === 'object' ? ' or object' : ''}`);
  return $paths.isObject(value) ? Object.values(value) : [value];
};
const made = [], of = [];
items.forEach((item, index) => {
  const rows = [];
  options.fields.forEach((field, column) => {
    const name = options.into[column] ?? '', isSpread = options.include === 'noOtherFields' && name === '' && options.fields.length === 1;
    listOf(item, field).forEach((each, row) => {
      rows[row] ??= {};
      if (isSpread && ($paths.isObject(each) || (each === null && options.needs === 'list'))) rows[row] = {...rows[row], ...each};
      else rows[row][name || field] = each;
    });
  });
  for (const row of rows) {
    let whole = row;
    if (options.include === 'allOtherFields') {
      const others = $paths.copy(item);
      for (const field of options.fields) unset(others, field);
      whole = {...others, ...row};
    }
    if (options.include === 'selectedOtherFields') {
      if (!options.other.length) throw new Error('No fields specified');
      for (const field of options.other) row[field] = get(item, field);
    }
    made.push(whole);
    of.push(index);
  }
});
return {items: made, of};"""
)

SOME_FIELDS = """return items
  .map(item => Object.fromEntries(Object.entries(item)
    .filter(([name]) => !drop.includes(name) && (!keep.length || keep.includes(name)))))
  .filter(item => Object.keys(item).length);"""

AGGREGATE = (
    PATHS
    + """const values = {}, used = new Set();
if (options.needsField) for (const {field} of options.fields) {
  if (field === '') throw new Error('Field to aggregate is blank');
  const isThere = options.dots === false ? item => Object.hasOwn(item, field) : item => get(item, field) !== undefined;
  if (!items.some(isThere) && (!options.keepMissing || (options.dots === false && field.includes('.'))))
    throw new Error(`Couldn't find the field '${field}' in the input data`);
}
for (const {field, name, renamed} of options.fields) {
  const unique = renamed ? name : field;
  if (used.has(unique)) throw new Error(`The '${unique}' output field is used more than once`);
  used.add(unique);
  if (field === '') continue;
  const list = values[name || (options.dots === false ? field : field.split('.').pop())] = [];
  for (const item of items) {
    let value = get(item, field);
    if (!options.keepMissing) {
      if (Array.isArray(value)) value = value.filter(each => each !== null);
      else if (value === null || value === undefined) continue;
    }
    if (Array.isArray(value) && options.merge) list.push(...value);
    else list.push(value ?? null);
  }
}
const made = {};
for (const [name, list] of Object.entries(values)) set(made, name, list);
return made;"""
)

_COMPARE = (
    prelude("order")
    + """const compared = (a, b) => $order.equal(a, b) ? 0 : $order.isLess(a, b) ? -1 : 1;
const indexesBy = compare => $order.ordered(items.map((_, index) => index), compare);
"""
)

SORT = (
    PATHS
    + _COMPARE
    + """for (const {field} of options.by) {
  const isThere = options.dots === false ? item => Object.hasOwn(item, field) : item => get(item, field) !== undefined;
  if (items.length && !items.some(isThere)) throw new Error(`Couldn't find the field '${field}' in the input data`);
}
const lower = value => typeof value === 'string' ? value.toLowerCase() : value;
const indexes = indexesBy((one, other) => {
  for (const {field, order} of options.by) {
    const way = compared(lower(get(items[one], field)), lower(get(items[other], field)));
    if (way) return order === 'ascending' ? way : -way;
  }
  return 0;
});
return {items: indexes.map(index => items[index]), of: indexes};"""
)

# Items are compared in the order that n8n sorts them into, each with the one before it: where values have no order, such as
# texts and null, ones that are the same may stand apart, and stay.
UNIQUE = (
    PATHS
    + _COMPARE
    + """const named = (value, before) => {
  if (!$paths.isObject(value)) return [before.join('.')];
  const entries = Number.isInteger(value.length) && value.length >= 0
    ? Array.from({length: value.length}, (_, index) => [index, value[index]]) : Object.entries(value);
  return entries.flatMap(([key, each]) => named(each, [...before, key]));
};
const namesIn = item => options.dots === false ? Object.keys(item) : named(item, []);
const allBut = list => [...new Set(list.flatMap(namesIn))].filter(name => !options.fields.includes(name));
if (options.compare !== 'allFields' && !options.fields.length && items.length) throw new Error('No fields specified');
const keys = options.compare === 'selectedFields' ? options.fields
  : allBut(options.compare === 'allFieldsExcept' && options.dots !== false ? items.slice(0, 1) : items);
const kind = value => Array.isArray(value) ? 9 : value === null ? 10 : {string: 1, number: 2, boolean: 4, undefined: 6, object: 7}[typeof value];
const known = items.map((item, index) => ({...item, __INDEX: index}));
const indexes = indexesBy((one, other) => {
  for (const key of keys) {
    const a = get(known[one], key), b = get(known[other], key);
    const way = options.byType && kind(a) !== kind(b) ? kind(a) - kind(b) : compared(a, b);
    if (way) return way;
  }
  return 0;
});
for (const key of keys) {
  const kinds = new Set();
  for (const item of known) {
    const value = get(item, key);
    if (key === '') throw new Error('Name of field to compare is blank');
    if (value === null && options.nullsPass) continue;
    if (value === undefined) throw new Error(`'${key}' field is missing from some input items`);
    kinds.add(typeof value);
  }
  if (kinds.size > 1 && !options.byType) throw new Error(`'${key}' isn't always the same type`);
}
const removed = new Set();
let last = indexes[0];
for (const index of indexes.slice(1)) {
  if (keys.every(key => $order.equal(get(known[index], key), get(known[last], key)))) removed.add(index);
  else last = index;
}
const of = items.map((_, index) => index).filter(index => !removed.has(index));
if (!options.only) return {items: of.map(index => items[index]), of};
const picked = item => {
  const made = {};
  for (const key of keys) {
    const inner = $paths.keysOf(key, item), value = $paths.get(item, key);
    if (value !== undefined) { if (inner.length === 1) made[inner[0]] = value; else $paths.set(made, key, value); }
  }
  return made;
};
return {items: of.map(index => picked(items[index])), of: of.map((_, index) => index)};"""
)

SUMMARIZE = (
    PATHS
    + """const prefix = {append: 'appended_', average: 'average_', concatenate: 'concatenated_', count: 'count_',
  countUnique: 'unique_count_', max: 'max_', min: 'min_', sum: 'sum_'};
const isEmpty = value => value === undefined || value === null || value === '';
const nameOf = text => text.replace(/[\\]["]/g, '').replace(/[ .]/g, '_');
const figure = (rows, each) => {
  const all = rows.map(({item}) => get(item, each.field)), known = all.filter(value => !isEmpty(value));
  const given = each.includeEmpty ? all : known, numbers = all.filter(value => typeof value === 'number');
  const sum = () => numbers.reduce((total, value) => total + value, 0);
  switch (each.aggregation ?? 'count') {
    case 'append': return given.map(value => value ?? null);
    case 'concatenate': {
      const text = each.separateBy === 'other' ? each.customSeparator ?? '' : each.separateBy ?? ',';
      return given.map(value => typeof value === 'object' ? JSON.stringify(value) : String(value)).join(text);
    }
    case 'sum': return sum();
    case 'average': return numbers.length ? sum() / numbers.length : null;
    case 'min': return known.length ? known.reduce((best, value) => value < best ? value : best) : null;
    case 'max': return known.length ? known.reduce((best, value) => value > best ? value : best) : null;
    case 'countUnique': return new Set(given).size;
    default: return given.length;
  }
};
const figures = rows => Object.fromEntries(options.fields.map(each =>
  [nameOf(`${prefix[each.aggregation ?? 'count']}${each.field}`), figure(rows, each)]));
const grouped = (rows, [first, ...rest]) => {
  if (first === undefined) return {figures: figures(rows), of: rows.map(({index}) => index)};
  const groups = new Map();
  for (const row of rows) {
    let value = get(row.item, first);
    if ($paths.isObject(value)) value = JSON.stringify(value);
    if (options.asTexts) value = String(value);
    if (options.skipEmpty && typeof value !== 'number' && !value) continue;
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(row);
  }
  return {name: nameOf(first), groups: [...groups].map(([value, inner]) => [value, grouped(inner, rest)])};
};
const listed = result => result.groups
  ? result.groups.flatMap(([value, inner]) => listed(inner).map(each => { each.figures[result.name] = value; return each; }))
  : [result];
const inOne = result => result.groups ? Object.fromEntries(result.groups.map(([value, inner]) => [value, inOne(inner)])) : result.figures;
const rows = items.map((item, index) => ({item: {...item, _itemIndex: index}, index}));
const result = grouped(rows, options.by);
if (options.needsField) for (const {field} of options.fields)
  if (field && !rows.some(({item}) => get(item, field) !== undefined)) throw new Error(`The field '${field}' does not exist in any items`);
if (options.single) return {items: [inOne(result)], of: [rows.map(({index}) => index)]};
const made = listed(result);
return {items: made.map(each => each.figures), of: made.map(each => each.of)};"""
)

RENAME = (
    PATHS
    + """return items.map(item => {
  const made = $paths.copy(item);
  for (const [from, to] of options.pairs) {
    const value = get(item, from);
    if (value === undefined) continue;
    set(made, to, value);
    unset(made, from);
  }
  return made;
})"""
)

SET_WITHIN = """const made = kept.map((base, index) => {
  const item = $paths.copy(base);
  for (const [path, value] of Object.entries(given[index])) set(item, path, value);
  return item;
});"""
