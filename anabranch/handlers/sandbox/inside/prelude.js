// What surrounds the code of a javascript node inside its engine. Evaluated before the code is known,
// with references of its own to all that the code might replace. The engine joins its lines into one,
// so that every later line number in a stack belongs to the code: whole-line comments only, and semicolons.
(function (send) {
  const AsyncFunction = (async function () {}).constructor;
  const apply = Reflect.apply;
  const sourceOf = Function.prototype.toString;
  const stringify = JSON.stringify;
  const parse = JSON.parse;
  const isFiniteNumber = Number.isFinite;
  const isArray = Array.isArray;
  const ErrorClass = Error;
  const isError = (value) => value instanceof ErrorClass;
  const TypeErrorClass = TypeError;
  const PromiseClass = Promise;
  const then = Promise.prototype.then;
  const text = String;
  const wellFormed = String.prototype.toWellFormed;
  const slice = String.prototype.slice;
  const NODES_MAX = 1048576;
  const TEXT_MAX = 4096;
  const FETCHES_MAX = 100;
  const sound = (value) => apply(wellFormed, text(value), []);
  const clean = (value) => apply(slice, sound(value), [0, TEXT_MAX]);
  const tell = (kind, ...values) => send(kind, stringify(values));

  const shown = (value) => {
    if (typeof value === "string") return value;
    if (isError(value)) return text(value.stack ? value.name + ": " + value.message + "\n" + value.stack : value);
    if (typeof value === "object" && value !== null) {
      try { return stringify(value) ?? text(value); } catch (problem) { return "[" + problem.message + "]"; }
    }
    return text(value);
  };
  const console = {};
  for (const level of ["log", "info", "warn", "error", "debug"]) {
    console[level] = (...values) => {
      let line = "";
      for (let index = 0; index < values.length; index += 1) line += (index ? " " : "") + shown(values[index]);
      tell("log", level, clean(line));
    };
  }
  globalThis.console = console;

  class NotStorable extends ErrorClass {}
  class TooLarge extends ErrorClass {}
  const toJson = (result) => {
    let nodes = 0;
    const checked = stringify(result === undefined ? null : result, (key, value) => {
      nodes += 1;
      if (nodes > NODES_MAX) throw new TooLarge("the code returned more than 1 MB of JSON");
      if (typeof value === "number" && !isFiniteNumber(value)) {
        throw new NotStorable("a number that is not finite (" + text(value) + ") at " + (key || "/") + ": return null or text");
      }
      return value;
    });
    if (checked === undefined) throw new NotStorable("the code returned a " + typeof result + ", which is no JSON value");
    return checked;
  };

  const report = (kind, problem) => {
    if (isError(problem)) {
      const name = problem instanceof NotStorable ? "NotStorable" : problem instanceof TooLarge ? "TooLarge" : problem.name;
      tell(kind, clean(name), clean(problem.message), clean(problem.stack));
    } else {
      tell(kind, problem === null ? "null" : typeof problem, clean(shown(problem)), "");
    }
  };

  const compile = (code) => {
    const made = AsyncFunction("ctx", code);
    // A body may close the function around it and open another: then this is not the function that was asked for.
    if (apply(sourceOf, made, []) !== "async function anonymous(ctx\n) {\n" + code + "\n}") {
      throw new SyntaxError("the braces of the code are not balanced: it leaves its function");
    }
    return made;
  };

  const waiting = new Map();
  const mapGet = Map.prototype.get;
  const mapSet = Map.prototype.set;
  const mapDelete = Map.prototype.delete;
  let asked = 0;
  const headersOf = (given) => {
    const headers = {};
    if (given === undefined || given === null) return headers;
    const pairs = isArray(given) ? given : Object.entries(given);
    for (let index = 0; index < pairs.length; index += 1) headers[sound(pairs[index][0])] = sound(pairs[index][1]);
    return headers;
  };
  const responseOf = (answer) => {
    const lower = {};
    for (const name of Object.keys(answer.headers)) lower[name.toLowerCase()] = answer.headers[name];
    return {
      status: answer.status,
      ok: answer.status >= 200 && answer.status < 300,
      url: answer.url,
      headers: {
        get: (name) => lower[text(name).toLowerCase()] ?? null,
        has: (name) => text(name).toLowerCase() in lower,
        entries: () => Object.entries(lower)[Symbol.iterator](),
        forEach: (visit) => Object.entries(lower).forEach(([name, value]) => visit(value, name)),
      },
      text: async () => answer.body,
      json: async () => parse(answer.body),
    };
  };
  const refusal = (code, message) => {
    const problem = new TypeErrorClass(message);
    problem.code = code;
    return problem;
  };
  const fetch = (url, options) => new PromiseClass((resolve, reject) => {
    // Refused here and not by the service: a flood that waits for the service's refusals would hold up both.
    if (asked >= FETCHES_MAX) throw refusal("EGRESS_REFUSED", "EGRESS_REFUSED: more than " + FETCHES_MAX + " requests in one execution");
    const chosen = options ?? {};
    const body = chosen.body === undefined || chosen.body === null ? null : sound(chosen.body);
    const parts = [sound(chosen.method ?? "GET"), sound(url), headersOf(chosen.headers), body];
    if (!send("fetch", stringify([asked + 1, ...parts]))) {
      throw refusal("VALUE_TOO_LARGE", "VALUE_TOO_LARGE: a request has at most 1 MB of JSON, with its URL, headers and body");
    }
    asked += 1;
    apply(mapSet, waiting, [asked, { resolve, reject }]);
  });
  const noFetch = async () => { throw new TypeErrorClass("fetch is switched off here: set allowFetch in the config of the node"); };
  const answered = (answerText) => {
    const answer = parse(answerText);
    const asker = apply(mapGet, waiting, [answer.id]);
    apply(mapDelete, waiting, [answer.id]);
    if (answer.error) {
      asker.reject(refusal(answer.error.code, answer.error.message));
    } else {
      asker.resolve(responseOf(answer));
    }
  };

  const check = (code) => {
    try { compile(code); send("done", "null"); } catch (problem) { report("failed", problem); }
  };
  const run = (code, contextText, allowsFetch) => {
    try {
      globalThis.fetch = allowsFetch ? fetch : noFetch;
      const made = compile(code);
      const promise = apply(made, undefined, [parse(contextText)]);
      apply(then, promise, [
        (result) => { try { send("done", toJson(result)); } catch (problem) { report("failed", problem); } },
        (problem) => report("failed", problem),
      ]);
    } catch (problem) { report("failed", problem); }
  };
  globalThis.__check = check;
  globalThis.__run = run;
  globalThis.__answered = answered;
})(globalThis.__send);
