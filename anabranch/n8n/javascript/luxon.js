// DateTime of Luxon in the time zones of `$zones`, as far as code of workflows uses it, and n8n's $now and $today.
const DateTime = (() => {
  const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const days = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
  const pad = (value, width = 2) => (value < 0 ? '-' : '') + String(Math.abs(value)).padStart(width, '0');
  const sizes = {millisecond: 1, second: 1000, minute: 60000, hour: 3600000, day: 86400000, week: 604800000};
  const unitOf = written => {
    const unit = {ms: 'millisecond'}[written] ?? String(written).toLowerCase().replace(/s$/, '');
    if (!Object.hasOwn(sizes, unit) && !['month', 'quarter', 'year', 'weekday', 'ordinal'].includes(unit)) throw new Error(`Invalid unit ${written}`);
    return unit;
  };
  // Of a zone: pairs of the time from which an offset holds, and the offset in minutes; the first begins before all times.
  const isUtc = zone => ['utc', 'etc/utc', 'gmt', 'etc/gmt'].includes(zone.toLowerCase());
  const offsetAt = (zone, ts) => {
    if (isUtc(zone)) return 0;
    const known = $zones[zone];
    let low = 0, high = known.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (known[middle][0] * 1000 <= ts) low = middle; else high = middle - 1; }
    return known[low][1];
  };
  // The point in time of a wall clock; where that is shown twice or never, `guess` decides as in Luxon.
  const atWall = (wall, guess, zone) => {
    let ts = wall - guess * 60000;
    const first = offsetAt(zone, ts);
    if (first === guess) return ts;
    ts -= (first - guess) * 60000;
    const second = offsetAt(zone, ts);
    return first === second ? ts : wall - Math.min(first, second) * 60000;
  };
  const offsetText = (minutes, form) => {
    const size = Math.abs(minutes), hours = Math.trunc(size / 60), rest = size % 60, sign = minutes < 0 ? '-' : '+';
    return sign + (form === 'narrow' ? hours + (rest ? `:${rest}` : '') : pad(hours) + (form === 'short' ? ':' : '') + pad(rest));
  };
  const lastDay = (year, month) => new Date(Date.UTC(year, month, 0)).getUTCDate();
  const moved = (date, count) => {
    const months = date.getUTCFullYear() * 12 + date.getUTCMonth() + count, year = Math.floor(months / 12), month = months - year * 12;
    const made = new Date(date);
    made.setUTCFullYear(year, month, Math.min(date.getUTCDate(), lastDay(year, month + 1)));
    return made;
  };
  const weekOf = date => {
    const thursday = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 4 - (date.getUTCDay() || 7)));
    return [thursday.getUTCFullYear(), Math.ceil((((thursday - Date.UTC(thursday.getUTCFullYear(), 0, 1)) / 86400000) + 1) / 7)];
  };
  class Duration {
    constructor(values) { Object.assign(this, values); }
    static fromObject(values) { return new Duration(values); }
    static fromMillis(milliseconds) { return new Duration({milliseconds}); }
    toObject() { return {...this}; }
    toMillis() { return Object.entries(this).reduce((sum, [unit, value]) => sum + value * sizes[unitOf(unit)], 0); }
    valueOf() { return this.toMillis(); }
    as(unit) { return this.toMillis() / sizes[unitOf(unit)]; }
  }
  const change = (when, amount, sign) => {
    const values = typeof amount === 'number' ? {milliseconds: amount} : amount instanceof Duration ? amount.toObject() : amount;
    let date = when._date, rest = 0, count = 0, days = 0;
    for (const [unit, value] of Object.entries(values)) {
      const name = unitOf(unit);
      if (name === 'year') count += 12 * value;
      else if (name === 'quarter') count += 3 * value;
      else if (name === 'month') count += Number(value);
      else if (name === 'week' || name === 'day') {
        days += (name === 'week' ? 7 : 1) * Math.trunc(value);
        rest += (value - Math.trunc(value)) * sizes[name];
      } else rest += value * sizes[name];
    }
    if (count) date = moved(date, sign * Math.trunc(count));
    const wall = date.getTime() + sign * days * 86400000;
    return new DateTime((count || days ? atWall(wall, when.offset, when.zoneName) : when.ts) + sign * rest, when.zoneName);
  };
  const texts = {
    DATE_SHORT: 'M/d/yyyy', DATE_MED: 'MMM d, yyyy', DATE_MED_WITH_WEEKDAY: 'EEE, MMM d, yyyy', DATE_FULL: 'MMMM d, yyyy', DATE_HUGE: 'EEEE, MMMM d, yyyy',
    TIME_SIMPLE: 'h:mm\u202fa', TIME_WITH_SECONDS: 'h:mm:ss\u202fa', TIME_24_SIMPLE: 'HH:mm', TIME_24_WITH_SECONDS: 'HH:mm:ss',
    DATETIME_SHORT: 'M/d/yyyy, h:mm\u202fa', DATETIME_SHORT_WITH_SECONDS: 'M/d/yyyy, h:mm:ss\u202fa', DATETIME_MED: 'MMM d, yyyy, h:mm\u202fa',
    DATETIME_MED_WITH_SECONDS: 'MMM d, yyyy, h:mm:ss\u202fa',
  };
  const macros = {D: 'DATE_SHORT', DD: 'DATE_MED', DDD: 'DATE_FULL', DDDD: 'DATE_HUGE', t: 'TIME_SIMPLE', tt: 'TIME_WITH_SECONDS', T: 'TIME_24_SIMPLE', TT: 'TIME_24_WITH_SECONDS', f: 'DATETIME_SHORT', F: 'DATETIME_SHORT_WITH_SECONDS', ff: 'DATETIME_MED', FF: 'DATETIME_MED_WITH_SECONDS'};
  // The year and number of a week as in the United States: it begins on Sunday, and the first has the first of January.
  const american = when => {
    const last = new Date(when._date.getTime() + (6 - when._date.getUTCDay()) * 86400000), year = last.getUTCFullYear();
    return [year, Math.floor((last.getTime() - Date.UTC(year, 0, 1)) / 604800000) + 1];
  };
  const named = when => {
    if (!isUtc(when.zoneName)) throw new Error('names of offsets are not there');
    return 'UTC';
  };
  const token = (when, word) => {
    if (Object.hasOwn(macros, word)) return when.toFormat(texts[macros[word]]);
    const half = when.hour % 12 || 12;
    const known = {
      S: () => String(when.millisecond), u: () => pad(when.millisecond, 3), SSS: () => pad(when.millisecond, 3), s: () => String(when.second), ss: () => pad(when.second), m: () => String(when.minute), mm: () => pad(when.minute),
      h: () => String(half), hh: () => pad(half), H: () => String(when.hour), HH: () => pad(when.hour), Z: () => offsetText(when.offset, 'narrow'), ZZ: () => offsetText(when.offset, 'short'), ZZZ: () => offsetText(when.offset, ''), ZZZZ: () => named(when), z: () => when.zoneName, a: () => when.hour < 12 ? 'AM' : 'PM',
      d: () => String(when.day), dd: () => pad(when.day), c: () => String(when.weekday), E: () => String(when.weekday), ccc: () => when.weekdayShort, EEE: () => when.weekdayShort, cccc: () => when.weekdayLong, EEEE: () => when.weekdayLong,
      L: () => String(when.month), M: () => String(when.month), LL: () => pad(when.month), MM: () => pad(when.month), LLL: () => when.monthShort, MMM: () => when.monthShort, LLLL: () => when.monthLong, MMMM: () => when.monthLong,
      y: () => String(when.year), yy: () => pad(when.year % 100), yyyy: () => pad(when.year, 4), kk: () => pad(when.weekYear % 100), kkkk: () => pad(when.weekYear, 4), W: () => String(when.weekNumber), WW: () => pad(when.weekNumber),
      ii: () => pad(american(when)[0] % 100), iiii: () => pad(american(when)[0], 4), n: () => String(american(when)[1]), nn: () => pad(american(when)[1]),
      o: () => String(when.ordinal), ooo: () => pad(when.ordinal, 3), q: () => String(when.quarter), qq: () => pad(when.quarter), X: () => String(Math.floor(when.ts / 1000)), x: () => String(when.ts),
    };
    return Object.hasOwn(known, word) ? known[word]() : word;
  };
  const read = {
    yyyy: ['(\\d{4})', (to, value) => { to.year = Number(value); }], yy: ['(\\d{2})', (to, value) => { to.year = Number(value) + (Number(value) > 60 ? 1900 : 2000); }], y: ['(\\d{1,6})', (to, value) => { to.year = Number(value); }],
    MM: ['(\\d{2})', (to, value) => { to.month = Number(value); }], M: ['(\\d{1,2})', (to, value) => { to.month = Number(value); }],
    MMMM: [`(${months.join('|')})`, (to, value) => { to.month = months.findIndex(each => each.toLowerCase() === value.toLowerCase()) + 1; }],
    MMM: [`(${months.map(each => each.slice(0, 3)).join('|')})`, (to, value) => { to.month = months.findIndex(each => each.slice(0, 3).toLowerCase() === value.toLowerCase()) + 1; }],
    dd: ['(\\d{2})', (to, value) => { to.day = Number(value); }], d: ['(\\d{1,2})', (to, value) => { to.day = Number(value); }],
    HH: ['(\\d{2})', (to, value) => { to.hour = Number(value); }], H: ['(\\d{1,2})', (to, value) => { to.hour = Number(value); }],
    hh: ['(\\d{2})', (to, value) => { to.half = Number(value); }], h: ['(\\d{1,2})', (to, value) => { to.half = Number(value); }],
    mm: ['(\\d{2})', (to, value) => { to.minute = Number(value); }], m: ['(\\d{1,2})', (to, value) => { to.minute = Number(value); }],
    ss: ['(\\d{2})', (to, value) => { to.second = Number(value); }], s: ['(\\d{1,2})', (to, value) => { to.second = Number(value); }],
    SSS: ['(\\d{3})', (to, value) => { to.millisecond = Number(value); }], a: ['(AM|PM)', (to, value) => { to.late = value.toUpperCase() === 'PM'; }],
    EEEE: [`(${days.join('|')})`, () => {}], EEE: [`(${days.map(each => each.slice(0, 3)).join('|')})`, () => {}],
    ZZ: ['([+-]\\d{2}:\\d{2})', (to, value) => { to.offset = value; }], ZZZ: ['([+-]\\d{4})', (to, value) => { to.offset = value; }],
  };
  const ofParts = ({year, month = 1, day = 1, hour = 0, minute = 0, second = 0, millisecond = 0, offset}, zone = $zone, guess = offsetAt(zone, Date.now())) => {
    if (month < 1 || month > 12 || day < 1 || day > lastDay(year, month) || hour > 24 || minute > 59 || second > 59) return new DateTime(NaN, zone);
    const made = new Date(0);
    made.setUTCFullYear(year, month - 1, day);
    made.setUTCHours(hour, minute, second, millisecond);
    if (offset === undefined) return new DateTime(atWall(made.getTime(), guess, zone), zone);
    const [, sign, hours, minutes = 0] = /([+-])(\d\d):?(\d\d)?/.exec(offset) ?? [null, '+', 0, 0];
    return new DateTime(made.getTime() - (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60000, zone);
  };
  const words = form => form.match(/'[^']*'|([A-Za-z])\1*|[^A-Za-z']/g) ?? [];
  const zoned = zone => {
    if (zone === undefined || String(zone).toLowerCase() === 'default') return $zone;
    if (isUtc(String(zone))) return 'UTC';
    if (!Object.hasOwn($zones, zone)) throw new Error(`the time zone ${zone} is not there`);
    return zone;
  };
  class DateTime {
    constructor(ts, zone = $zone) {
      this.ts = ts;
      Object.defineProperty(this, 'zoneName', {value: zone});
      Object.defineProperty(this, 'offset', {value: Number.isNaN(ts) ? NaN : offsetAt(zone, ts)});
      Object.freeze(this);
    }
    static now() { return new DateTime(Date.now()); }
    static local(year, month = 1, day = 1, hour = 0, minute = 0, second = 0, millisecond = 0) {
      return typeof year === 'number' ? ofParts({year, month, day, hour, minute, second, millisecond}) : DateTime.now();
    }
    static utc(year, month = 1, day = 1, hour = 0, minute = 0, second = 0, millisecond = 0) {
      return typeof year === 'number' ? ofParts({year, month, day, hour, minute, second, millisecond}, 'UTC') : new DateTime(Date.now(), 'UTC');
    }
    static fromMillis(ts, options = {}) {
      if (typeof ts !== 'number') throw new Error(`fromMillis requires a numerical input, but received a ${typeof ts} with value ${ts}`);
      return new DateTime(Math.trunc(ts), zoned(options.zone));
    }
    static fromSeconds(seconds, options = {}) {
      if (typeof seconds !== 'number') throw new Error('fromSeconds requires a numerical input');
      return new DateTime(Math.trunc(seconds * 1000), zoned(options.zone));
    }
    static fromJSDate(date) { return new DateTime(date instanceof Date ? date.getTime() : NaN); }
    static fromObject(values, options = {}) { const zone = zoned(options.zone); return ofParts({year: new DateTime(Date.now(), zone).year, ...values}, zone); }
    static isDateTime(value) { return value instanceof DateTime; }
    static max(...all) { return all.reduce((best, each) => each.ts > best.ts ? each : best); }
    static min(...all) { return all.reduce((best, each) => each.ts < best.ts ? each : best); }
    static fromISO(text, options = {}) {
      const zone = zoned(options.zone), found = /^(\d{4}|[+-]\d{6})(?:-?(\d\d)(?:-?(\d\d))?)?(?:T(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,30}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i.exec(String(text));
      if (!found) return new DateTime(NaN, zone);
      const [, year, month = 1, day = 1, hour = 0, minute = 0, second = 0, part = '', offset] = found;
      return ofParts({year: Number(year), month: Number(month), day: Number(day), hour: Number(hour), minute: Number(minute), second: Number(second), millisecond: Math.floor(Number(`0.${part || 0}`) * 1000), offset: offset?.toUpperCase() === 'Z' ? '+00' : offset}, zone);
    }
    static fromSQL(text) { return DateTime.fromISO(String(text).replace(/^(\d{4}-\d\d-\d\d) (\d)/, '$1T$2').replace(/ ?UTC$/, 'Z').replace(/ ([+-]\d\d:?\d\d)$/, '$1')); }
    static fromFormat(text, form, options = {}) {
      const zone = zoned(options.zone), readers = [];
      const pattern = words(form).map(word => {
        if (word.startsWith("'")) return word.slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
        if (!/^[A-Za-z]/.test(word)) return word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
        if (!Object.hasOwn(read, word)) throw new Error(`the format ${word} cannot be read`);
        readers.push(read[word][1]);
        return read[word][0];
      }).join('');
      const found = new RegExp(`^${pattern}$`, 'i').exec(text), to = {};
      if (!found) return new DateTime(NaN, zone);
      readers.forEach((reader, index) => reader(to, found[index + 1]));
      if (to.half !== undefined) to.hour = to.late === undefined ? to.half : to.half % 12 + (to.late ? 12 : 0);
      const {year, month, day} = new DateTime(Date.now(), zone);
      return ofParts({...(to.year === undefined && to.month === undefined && to.day === undefined ? {year, month, day} : {year}), ...to}, zone);
    }
    get isValid() { return !Number.isNaN(new Date(this.ts).getTime()); }
    get _date() { return new Date(this.ts + this.offset * 60000); }
    get year() { return this._date.getUTCFullYear(); }
    get month() { return this._date.getUTCMonth() + 1; }
    get day() { return this._date.getUTCDate(); }
    get hour() { return this._date.getUTCHours(); }
    get minute() { return this._date.getUTCMinutes(); }
    get second() { return this._date.getUTCSeconds(); }
    get millisecond() { return this._date.getUTCMilliseconds(); }
    get weekday() { return this.isValid ? this._date.getUTCDay() || 7 : NaN; }
    get quarter() { return Math.ceil(this.month / 3); }
    get ordinal() { return Math.floor((this._date.getTime() - Date.UTC(this.year, 0, 1)) / 86400000) + 1; }
    get weekNumber() { return weekOf(this._date)[1]; }
    get weekYear() { return weekOf(this._date)[0]; }
    get daysInMonth() { return lastDay(this.year, this.month); }
    get daysInYear() { return this.isInLeapYear ? 366 : 365; }
    get isInLeapYear() { return lastDay(this.year, 2) === 29; }
    get monthLong() { return this.isValid ? months[this.month - 1] : null; }
    get monthShort() { return this.isValid ? this.monthLong.slice(0, 3) : null; }
    get weekdayLong() { return this.isValid ? days[this.weekday - 1] : null; }
    get weekdayShort() { return this.isValid ? this.weekdayLong.slice(0, 3) : null; }
    get locale() { return 'en-US'; }
    toMillis() { return this.isValid ? this.ts : NaN; }
    valueOf() { return this.toMillis(); }
    toSeconds() { return this.isValid ? this.ts / 1000 : NaN; }
    toUnixInteger() { return this.isValid ? Math.floor(this.ts / 1000) : NaN; }
    toJSDate() { return new Date(this.ts); }
    toBSON() { return new Date(this.ts); }
    toISODate() { return this.isValid ? this.toFormat('yyyy-MM-dd') : null; }
    toISOTime(options = {}) {
      if (!this.isValid) return null;
      const brief = options.suppressMilliseconds && this.millisecond === 0 ? 'HH:mm:ss' : 'HH:mm:ss.SSS';
      return this.toFormat(options.suppressSeconds && this.second === 0 && this.millisecond === 0 ? 'HH:mm' : brief) + (options.includeOffset === false ? '' : isUtc(this.zoneName) ? 'Z' : offsetText(this.offset, 'short'));
    }
    toISO(options = {}) { return this.isValid ? `${this.toISODate()}T${this.toISOTime(options)}` : null; }
    toISOWeekDate() { return this.isValid ? this.toFormat("kkkk-'W'WW-c") : null; }
    toSQLDate() { return this.toISODate(); }
    toSQLTime() { return this.isValid ? this.toFormat(isUtc(this.zoneName) ? "HH:mm:ss.SSS 'Z'" : 'HH:mm:ss.SSS ZZ') : null; }
    toSQL() { return this.isValid ? `${this.toSQLDate()} ${this.toSQLTime()}` : null; }
    toRFC2822() { return this.isValid ? this.toFormat('EEE, dd MMM yyyy HH:mm:ss ZZZ') : 'Invalid DateTime'; }
    toHTTP() { return this.isValid ? this.toUTC().toFormat("EEE, dd MMM yyyy HH:mm:ss 'GMT'") : 'Invalid DateTime'; }
    toJSON() { return this.toISO(); }
    toString() { return this.isValid ? this.toISO() : 'Invalid DateTime'; }
    toObject() { return {year: this.year, month: this.month, day: this.day, hour: this.hour, minute: this.minute, second: this.second, millisecond: this.millisecond}; }
    toFormat(form) {
      if (!this.isValid) return 'Invalid DateTime';
      return words(form).map(word => word.startsWith("'") ? word.slice(1, -1) : /^[A-Za-z]/.test(word) ? token(this, word) : word).join('');
    }
    toLocaleString(form = 'DATE_SHORT') { return this.isValid ? this.toFormat(texts[form]) : 'Invalid DateTime'; }
    toUTC() { return this.setZone('UTC'); }
    toLocal() { return this.setZone('default'); }
    setZone(zone) { const wanted = zoned(zone); return wanted === this.zoneName ? this : new DateTime(this.ts, wanted); }
    setLocale(locale) { if (!/^en\b/.test(locale)) throw new Error(`the language ${locale} is not there`); return this; }
    plus(amount) { return change(this, amount, 1); }
    minus(amount) { return change(this, amount, -1); }
    set(values) {
      const given = Object.fromEntries(Object.entries(values).map(([unit, value]) => [unitOf(unit), Number(value)]));
      const {weekday, ordinal, ...plain} = given, made = {...this.toObject(), ...plain};
      if (weekday !== undefined) return change(this, {days: weekday - this.weekday}, 1);
      if (ordinal !== undefined) return change(this, {days: ordinal - this.ordinal}, 1);
      if (plain.day === undefined) made.day = Math.min(made.day, lastDay(made.year, made.month));
      const wall = new Date(0);
      wall.setUTCFullYear(made.year, made.month - 1, made.day);
      wall.setUTCHours(made.hour, made.minute, made.second, made.millisecond);
      return new DateTime(atWall(wall.getTime(), this.offset, this.zoneName), this.zoneName);
    }
    startOf(written) {
      const unit = unitOf(written), {year, month, day, hour, minute, second, millisecond} = this.toObject();
      if (unit === 'week') return change(this.startOf('day'), {days: this.weekday - 1}, -1);
      const first = {year: [year], quarter: [year, this.quarter * 3 - 2], month: [year, month], day: [year, month, day], hour: [year, month, day, hour], minute: [year, month, day, hour, minute], second: [year, month, day, hour, minute, second], millisecond: [year, month, day, hour, minute, second, millisecond]};
      const [startYear, startMonth = 1, startDay = 1, startHour = 0, startMinute = 0, startSecond = 0, startPart = 0] = first[unit];
      return ofParts({year: startYear, month: startMonth, day: startDay, hour: startHour, minute: startMinute, second: startSecond, millisecond: startPart}, this.zoneName, this.offset);
    }
    endOf(unit) { return new DateTime(change(this.startOf(unit), {[unitOf(unit)]: 1}, 1).ts - 1, this.zoneName); }
    diff(other, units = 'milliseconds') {
      const [unit] = [units].flat(), rest = this.ts - DateTime._of(other).ts;
      const name = unitOf(unit);
      const size = sizes[name], whole = Math.trunc(rest / size);
      return new Duration({[`${name}s`]: whole + (rest - whole * size) / size});
    }
    diffNow(units) { return this.diff(DateTime.now(), units); }
    hasSame(other, unit) { const here = ofParts(this.toObject(), other.zoneName); return here.startOf(unit).ts <= other.ts && other.ts <= here.endOf(unit).ts; }
    equals(other) { return other instanceof DateTime && this.isValid && this.ts === other.ts && this.zoneName === other.zoneName; }
    static _of(value) { return value instanceof DateTime ? value : value instanceof Date ? DateTime.fromJSDate(value) : DateTime.fromObject(value); }
  }
  for (const name of Object.keys(texts)) DateTime[name] = name;
  DateTime.Duration = Duration;
  return DateTime;
})();
const Duration = DateTime.Duration;
const $now = DateTime.now(), $today = $now.startOf('day');
