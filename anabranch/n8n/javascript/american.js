// What `toLocaleString` and its like write in American English, with the options that are read here, and British dates.
const $locale = (() => {
  const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const two = (value, form) => form === '2-digit' ? String(value).padStart(2, '0').slice(-2) : String(value);
  const dateOf = (date, {weekday, year, month, day}) => {
    const named = month === 'long' || month === 'short', cut = (name, form) => form === 'short' ? name.slice(0, 3) : name;
    const parts = {weekday: weekday && cut(days[date.getDay()], weekday), year: year && two(date.getFullYear(), year),
      month: month && (named ? cut(months[date.getMonth()], month) : two(date.getMonth() + 1, month)), day: day && two(date.getDate(), day)};
    const dayOf = named ? [parts.month, parts.day].filter(Boolean).join(' ') : [parts.month, parts.day, parts.year].filter(Boolean).join('/');
    const withYear = named ? [dayOf, parts.year].filter(Boolean).join(day ? ', ' : ' ') : dayOf;
    return [parts.weekday, withYear].filter(Boolean).join(', ');
  };
  const timeOf = (date, {hour, minute, second, hour12}) => {
    const half = hour12 !== false, of = half ? date.getHours() % 12 || 12 : date.getHours();
    const parts = [hour && (half ? two(of, hour) : String(of).padStart(2, '0')), minute && String(date.getMinutes()).padStart(2, '0'),
      second && String(date.getSeconds()).padStart(2, '0')].filter(Boolean);
    return parts.join(':') + (hour && half ? (date.getHours() < 12 ? ' AM' : ' PM') : '');
  };
  const whole = {year: 'numeric', month: 'numeric', day: 'numeric'}, clock = {hour: 'numeric', minute: 'numeric', second: 'numeric'};
  const asked = (options, names) => names.some(name => options[name] !== undefined);
  const dated = (date, options, wants) => {
    if (Number.isNaN(date.getTime())) return 'Invalid Date';
    const anything = asked(options, ['weekday', 'year', 'month', 'day', 'hour', 'minute', 'second']);
    const more = {...options};
    if (wants === 'date' ? !asked(options, ['weekday', 'year', 'month', 'day']) : wants === 'both' && !anything) Object.assign(more, whole);
    if (wants === 'time' ? !asked(options, ['hour', 'minute', 'second']) : wants === 'both' && !anything) Object.assign(more, clock);
    const date_ = dateOf(date, more), time = asked(more, ['hour', 'minute', 'second']) ? timeOf(date, more) : '';
    const joint = (more.month === 'long' && more.hour) ? ' at ' : ', ';
    return date_ && time ? date_ + joint + time : date_ || time;
  };
  const british = date => Number.isNaN(date.getTime()) ? 'Invalid Date'
    : [two(date.getDate(), '2-digit'), two(date.getMonth() + 1, '2-digit'), date.getFullYear()].join('/');
  const counted = (value, options) => {
    const money = options.style === 'currency', least = options.minimumFractionDigits ?? (money ? Math.min(2, options.maximumFractionDigits ?? 2) : 0);
    const sign = money ? '$' : '', most = Math.max(least, options.maximumFractionDigits ?? (money ? 2 : 3)), size = Math.abs(value);
    if (!Number.isFinite(value)) return (value < 0 ? '-' : '') + sign + (Number.isNaN(value) ? 'NaN' : '∞');
    const [before, after = ''] = (size >= 1e21 ? String(BigInt(size)) : size < 1e-6 ? size.toFixed(20) : String(size)).split('.');
    const digits = String(BigInt(before + after.slice(0, most).padEnd(most, '0')) + (after[most] >= '5' ? 1n : 0n)).padStart(most + 1, '0');
    let integer = digits.slice(0, digits.length - most), rest = digits.slice(digits.length - most);
    while (rest.length > least && rest.endsWith('0')) rest = rest.slice(0, -1);
    integer = integer.replace(/\B(?=(\d{3})+$)/g, ',');
    const text = sign + integer + (rest ? '.' + rest : '');
    return (value < 0 || Object.is(value, -0) ? '-' : '') + text;
  };
  const compact = (value, most) => {
    const size = Math.abs(value), cut = power => Number(counted(Number((size + 'e').split('e')[0] + 'e' + (Number((size + 'e0').split('e')[1]) - 3 * power)), {maximumFractionDigits: most}).replaceAll(',', ''));
    if (!Number.isFinite(value)) return counted(value, {});
    let power = 0;
    while (power < 4 && cut(power) >= 1000) power += 1;
    const text = counted(cut(power), {maximumFractionDigits: most}), integer = text.split('.')[0];
    return (value < 0 || Object.is(value, -0) ? '-' : '') + (integer.length < 6 ? text.replace(',', '') : text) + ['', 'K', 'M', 'B', 'T'][power];
  };
  return {
    number: (value, options) => options.notation === 'compact' ? compact(value, options.maximumFractionDigits) : counted(value, options),
    text: (value, _, options = {}) => typeof value === 'number' ? counted(value, options)
      : value instanceof Date ? dated(value, options, 'both') : value.toLocaleString(),
    date: (value, language, options = {}) => language === 'en-GB' ? british(value) : dated(value, options, 'date'), time: (value, _, options = {}) => dated(value, options, 'time'),
  };
})();
Number.prototype.toLocaleString = function (...given) { return $locale.text(Number(this), ...given); };
Date.prototype.toLocaleString = function (...given) { return $locale.text(this, ...given); };
Date.prototype.toLocaleDateString = function (...given) { return $locale.date(this, ...given); };
const Intl = {NumberFormat: function (_, options = {}) { return {format: value => $locale.number(Number(value), options)}; }};
Date.prototype.toLocaleTimeString = function (...given) { return $locale.time(this, ...given); };
