// What n8n's `if`, `filter` and `switch` make of conditions: n8nPasses of typed ones, n8nPassesOld of the first versions.
const $fault = message => Object.assign(new Error(message), {fails: true});
const $read = thunk => { let value; try { value = thunk(); } catch (fault) { if (fault?.$unpaired || fault?.fails) throw fault; return undefined; } return typeof value?.toISO === 'function' ? value.toString() : value; };
const $matches = (pattern, text) => { const whole = /^\/(.*?)\/([gimusy]*)$/.exec(pattern); try { return new RegExp(whole ? whole[1] : pattern, whole ? whole[2] : '').test(text); } catch (error) { throw $fault(error.message); } };
const n8nPasses = (() => {
  const listOf = value => { if (Array.isArray(value)) return value; let made; try { made = JSON.parse(String(value)); } catch { made = JSON.parse(String(value).replace(/'/g, '"')); } if (!Array.isArray(made)) throw 0; return made; };
  const objectOf = value => { if (value && typeof value === 'object' && !Array.isArray(value)) return value; const made = JSON.parse(String(value)); if (typeof made !== 'object' || Array.isArray(made)) throw 0; return made; };
  const booleanOf = value => {
    if (typeof value === 'boolean') return value;
    if (typeof value === 'string' && /^(true|false)$/i.test(value)) return value.toLowerCase() === 'true';
    const number = typeof value === 'string' && value.trim() === '' ? NaN : Number(value);
    if (number !== 0 && number !== 1) throw 0;
    return number === 1;
  };
  const numberOf = value => { const number = Number(value); if (Number.isNaN(number)) throw 0; return number; };
  const dateOf = (value, dates) => {
    const text = value instanceof Date ? value.toISOString() : String(value).trim();
    for (const way of ['fromISO', 'fromSQL']) { const made = dates[way](text); if (made.isValid) return made.toMillis(); }
    const made = Date.parse(text);
    if (Number.isNaN(made)) throw 0;
    return made;
  };
  const isOf = {string: value => typeof value === 'string', number: value => typeof value === 'number', boolean: value => typeof value === 'boolean', array: Array.isArray, object: value => ['object', 'function'].includes(typeof value)};
  const converted = (value, type, how, dates) => {
    if (type === 'any' || value === null || value === undefined) return [value];
    if (type === 'boolean' && !how.strict) { if (how.version >= 2) try { return [booleanOf(value)]; } catch { return [Boolean(value)]; } return [Boolean(value)]; }
    if (type === 'number') {
      if (Number.isNaN(value)) return [value];
      if (how.version >= 3 && ((typeof value === 'string' && value.trim() === '') || (Array.isArray(value) && !value.length))) return [null];
    }
    if (how.strict && isOf[type] && !isOf[type](value)) return null;
    try {
      if (type === 'string') return [typeof value === 'object' ? JSON.stringify(value) : String(value)];
      if (type === 'number') return [numberOf(value)];
      if (type === 'boolean') return [booleanOf(value)];
      if (type === 'dateTime') return [dateOf(value, dates)];
      if (type === 'array') return [listOf(value)];
      if (type === 'object') return [objectOf(value)];
      return [value];
    } catch { return null; }
  };
  const an = word => ('aeiou'.includes(word[0]) ? 'an ' : 'a ') + word;
  const mismatch = (value, type, how, location) => how.strict
    ? `Wrong type: '${String(value)}' is ${an(typeof value)} but was expecting ${an(type)} ${location}`
    : `Conversion error: the ${typeof value} '${String(value)}' can't be converted to ${an(type)} ${location}`;
  const compared = {equals: (a, b) => a === b, notEquals: (a, b) => a !== b, gt: (a, b) => a > b, lt: (a, b) => a < b, gte: (a, b) => a >= b, lte: (a, b) => a <= b};
  const timed = {equals: (a, b) => a === b, notEquals: (a, b) => a !== b, after: (a, b) => a > b, before: (a, b) => a < b, afterOrEquals: (a, b) => a >= b, beforeOrEquals: (a, b) => a <= b};
  const texts = {
    empty: a => a.length === 0, equals: (a, b) => a === b, contains: (a, b) => a.includes(b), startswith: (a, b) => a.startsWith(b), endswith: (a, b) => a.endsWith(b),
    regex: (a, b) => $matches(String(b), a),
  };
  const has = (list, value, folds) => folds && typeof value === 'string' ? list.some(each => typeof each === 'string' && each.toLocaleLowerCase() === value.toLocaleLowerCase()) : list.includes(value);
  const test = (one, number, how, dates) => {
    const [read, type, operation, readOther, otherType, single] = one, written = $read(read), other = $read(readOther);
    const first = converted(written, type, how, dates), second = converted(other, otherType, how, dates), location = `[condition ${number}, item ${$itemIndex}]`;
    if (!first && !second && !single && typeof written === typeof other) throw $fault(`Comparison type expects ${an(type)} but both fields are ${an(typeof written)}`);
    if (!first) throw $fault(mismatch(written, type, how, location));
    if (!second && !single) throw $fault(mismatch(other, otherType, how, location));
    let left = first[0], right = second?.[0];
    const exists = left !== undefined && left !== null && !Number.isNaN(left);
    if (operation === 'exists') return exists;
    if (operation === 'notExists') return !exists;
    const negated = operation.startsWith('not'), plain = negated ? operation.slice(3).toLowerCase() : operation.toLowerCase();
    if (type === 'string') {
      if (how.folds && typeof left === 'string') left = left.toLocaleLowerCase();
      if (how.folds && typeof right === 'string' && plain !== 'regex') right = right.toLocaleLowerCase();
      return Object.hasOwn(texts, plain) && texts[plain](left ?? '', right ?? '') !== negated;
    }
    if (['number', 'dateTime', 'boolean'].includes(type) && plain === 'empty') return exists === negated;
    if (type === 'number') return Object.hasOwn(compared, operation) && compared[operation](left, right);
    if (type === 'dateTime') return Boolean(first[0] !== undefined && first[0] !== null && second?.[0] !== undefined && second[0] !== null) && Object.hasOwn(timed, operation) && timed[operation](left, right);
    if (type === 'boolean') return operation === 'true' ? Boolean(left) : operation === 'false' ? !left : plain === 'equals' && (left === right) !== negated;
    if (type === 'array') {
      if (plain === 'empty') return ((left ?? []).length === 0) !== negated;
      if (plain === 'contains') return has(left ?? [], right, how.folds) !== negated;
      const size = operation.startsWith('length') ? operation[6].toLowerCase() + operation.slice(7) : '';
      return Object.hasOwn(compared, size) && compared[size]((left ?? []).length, right);
    }
    return type === 'object' && plain === 'empty' && (!left || Object.keys(left).length === 0) !== negated;
  };
  return (how, tests, dates) => tests[how.any ? 'some' : 'every']((one, number) => test(one, number, how, dates));
})();
const n8nPassesOld = (() => {
  const isEmpty = value => [undefined, null, '', NaN].includes(value) || (value instanceof Date ? Number.isNaN(+value) : typeof value === 'object' && Object.keys(value).length === 0);
  const has = (a, b) => (a || '').toString().includes((b || '').toString()), matches = (a, b) => $matches((b || '').toString(), (a || '').toString());
  const tests = {
    after: (a, b) => (a || 0) > (b || 0), before: (a, b) => (a || 0) < (b || 0), larger: (a, b) => (a || 0) > (b || 0), largerEqual: (a, b) => (a || 0) >= (b || 0),
    smaller: (a, b) => (a || 0) < (b || 0), smallerEqual: (a, b) => (a || 0) <= (b || 0), equal: (a, b) => a === b, notEqual: (a, b) => a !== b,
    contains: has, notContains: (a, b) => !has(a, b), startsWith: (a, b) => a.startsWith(b), notStartsWith: (a, b) => !a.startsWith(b), endsWith: (a, b) => a.endsWith(b), notEndsWith: (a, b) => !a.endsWith(b),
    isEmpty, isNotEmpty: a => !isEmpty(a), regex: matches, notRegex: (a, b) => !matches(a, b),
  };
  const timeOf = value => { const made = typeof value === 'string' ? new Date(value).getTime() : Number(value instanceof Date || typeof value === 'number' ? value : NaN); if (Number.isNaN(made)) throw $fault(`The value "${value}" is not a valid DateTime.`); return made; };
  return (any, listed) => listed[any ? 'some' : 'every'](([type, operation, first, second]) => {
    let left = $read(first), right = $read(second);
    if (type === 'dateTime') { left = timeOf(left); right = timeOf(right); }
    try { return tests[operation](left, right); } catch (error) { throw $fault(error.message); }
  });
})();
const n8nQuiet = made => { try { return made(); } catch { return false; } };
