// Executes nodes of anabranch in Node.js: `node executor.mjs HANDLERS.mjs`, with ANABRANCH_BROKER_URL set.
// A handler is an exported function `async (config, context, job) => output` with the name of its node type.
// docs/executors.md describes the protocol. A lost connection ends the process: have it started again.
import { hostname } from "node:os";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import amqp from "amqplib";

const { ANABRANCH_BROKER_URL, ANABRANCH_POOLS = "default", ANABRANCH_CONCURRENCY = "8" } = process.env;
const GRACE_MS = 25_000; // for jobs under way, once this process is to end
const KEPT_MAX = 1000;
const KEPT_BYTES_MAX = 16 * 1_048_576;
const HIGH_IN_A_ROW_MAX = 10; // then a job of normal priority has its turn
const LINE_CHARACTERS_MAX = 4096;
const LINES_MAX = 500; // of a job, that the broker has not confirmed; further ones are dropped
const handlers = await import(pathToFileURL(resolve(process.argv[2])));
let places = Number(ANABRANCH_CONCURRENCY);
let highInARow = 0;
let stopping = false;
const waiting = { high: [], normal: [] }; // jobs without a place
const executor = `${hostname()}-${process.pid}`;
const running = new Map(); // jobs from their arrival to their result, by jobID
const ended = new Map(); // the results of the last jobs
let endedBytes = 0;
const returned = new Set(); // publications that nobody awaits
const consumers = [];
const taken = new Set(); // messages until they are acknowledged
let published = 0;

const connection = await amqp.connect(ANABRANCH_BROKER_URL);
connection.on("error", (error) => console.error(`the broker is lost: ${error.message}`));
connection.on("close", () => process.exit(1));
const channel = await connection.createConfirmChannel();
channel.on("return", (message) => returned.add(message.properties.messageId));

/** Publish a report; whether somebody awaits it: a message that is returned is so before it is confirmed. */
function report(current, kind, body) {
  const { jobID, replyTo } = current.job;
  const messageId = String((published += 1));
  const raw = Buffer.from(JSON.stringify({ protocol: 1, jobID, kind, ...body }));
  return new Promise((confirmed, failed) =>
    channel.publish("", `anabranch.reports.${replyTo}`, raw, { mandatory: true, messageId }, (error) =>
      error ? failed(error) : confirmed(!returned.delete(messageId)),
    ),
  );
}

/** Keep a result, and drop the oldest ones that are too many. */
function keep(jobID, result) {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  endedBytes += bytes;
  ended.set(jobID, { result, bytes });
  for (const [oldest, each] of ended) {
    if (ended.size <= KEPT_MAX && (endedBytes <= KEPT_BYTES_MAX || ended.size === 1)) break;
    ended.delete(oldest);
    endedBytes -= each.bytes;
  }
}

/** The next job that gets a place: of high priority, but after ten of these a normal one. */
function next() {
  const { high, normal } = waiting;
  const isHigh = high.length > 0 && (normal.length === 0 || highInARow < HIGH_IN_A_ROW_MAX);
  highInARow = isHigh ? highInARow + 1 : 0;
  return (isHigh ? high : normal).shift();
}

/** Resolves with true when the job has a place, with false if this executor stops before. */
function place({ priority }) {
  if (stopping) return false;
  if (places > 0) {
    places -= 1;
    return true;
  }
  return new Promise((begins) => waiting[priority === "high" ? "high" : "normal"].push(begins));
}

function leavePlace() {
  const begins = next();
  if (begins) begins(true);
  else places += 1;
}

/** Another executor gets the job: as a new message, so that the broker does not count a death of this one. */
const giveBack = ({ content, fields }) =>
  new Promise((confirmed, failed) =>
    channel.sendToQueue(fields.routingKey, content, { persistent: true }, (error) => (error ? failed(error) : confirmed())),
  );

const failure = (code, message, retryable = true, traceback = "") => {
  return { status: "failed", error: { code, type: "Error", message, traceback }, retryable };
};

/** Run the handler within its limits: a result, or null once the job is cancelled. */
function outcome(current) {
  const { job, abort } = current;
  const timers = {};
  const execution = new Promise((end) => {
    const limit = (code, ms) => {
      clearTimeout(timers[code]);
      if (ms) timers[code] = setTimeout(() => end(failure(code, `it took longer than ${ms} ms`)), ms);
    };
    abort.signal.addEventListener("abort", () => end(null));
    limit("NODE_TIMEOUT", job.timeoutMs);
    limit("HEARTBEAT_TIMEOUT", job.heartbeatTimeoutMs);
    const line = async (text, level = 20) => {
      if (current.lines >= LINES_MAX) return;
      current.lines += 1;
      await report(current, "line", { level, text: String(text).slice(0, LINE_CHARACTERS_MAX) });
      current.lines -= 1;
    };
    const progress = (done, total = null, text = "") => {
      limit("HEARTBEAT_TIMEOUT", job.heartbeatTimeoutMs);
      return report(current, "progress", { done, total, text });
    };
    handlers[job.type](job.config, job.context, { ...job, line, progress, signal: abort.signal })
      .then((output = null) => end({ status: "completed", output, nextHandle: null, queueDelayMs: null }))
      .catch(({ code = "HANDLER_ERROR", message, retryable = true, stack }) =>
        end(failure(code, message, retryable, stack)),
      );
  });
  return execution.finally(() => {
    Object.values(timers).forEach(clearTimeout);
    abort.abort(); // whatever the handler still does is in vain
  });
}

/** Why the job is not begun here, or null. */
function refusal({ type, sealed, parts }, deliveries) {
  if (deliveries >= 5) return failure("EXECUTOR_LOST", `${deliveries} executors ended with it`, false);
  if (!Object.hasOwn(handlers, type)) return failure("UNKNOWN_NODE_TYPE", `there is no handler of ${type} here`, false);
  if (sealed) return failure("SECRET_KEY_MISSING", "this executor opens no secrets", false);
  if (parts?.length) return failure("EXECUTOR_REFUSED", "this executor fetches no large values", false);
  return null;
}

/** From `started` to the result; whether there is one. */
async function execute(current, message) {
  const { job } = current;
  if (!(await report(current, "started", { executor }))) return false;
  if (!(await place(job))) {
    if (!current.abort.signal.aborted) await giveBack(message);
    return false;
  }
  const deliveries = message.properties.headers["x-delivery-count"] ?? 0;
  let result = null;
  if (!current.abort.signal.aborted) result = refusal(job, deliveries) ?? (await outcome(current));
  leavePlace();
  if (result === null) {
    if (current.goesBack) await giveBack(message);
    return false;
  }
  keep(job.jobID, result);
  await report(current, "result", result);
  return true;
}

/** Whether a repetition of a job has been answered, with the result of the first one, kept or to come. */
async function answered(job) {
  for (let known; (known = running.get(job.jobID)); ) {
    const isUnderWay = !known.abort.signal.aborted;
    if (isUnderWay) known.job = job; // the newest sender gets the result
    if ((await known.done) && isUnderWay) return true;
  } // without a result it was cancelled, or nobody awaited it: that of the repetition may
  const kept = ended.get(job.jobID);
  if (kept) await report({ job }, "result", kept.result);
  return kept !== undefined;
}

/** A message of a pool; it is acknowledged when the result is confirmed. */
async function accept(message) {
  let job;
  try {
    job = JSON.parse(message.content);
    if (job.protocol !== 1) throw new Error(`it is of protocol ${job.protocol}`);
  } catch (error) {
    console.error(`a job cannot be read and goes to anabranch.dead: ${error.message}`);
    return channel.reject(message, false);
  }
  if (!(await answered(job))) {
    const current = { job, abort: new AbortController(), lines: 0, goesBack: false };
    running.set(job.jobID, current);
    current.done = execute(current, message).finally(() => running.delete(job.jobID));
    await current.done;
  }
  channel.ack(message);
}

function take(message) {
  const accepting = accept(message).finally(() => taken.delete(accepting));
  taken.add(accepting);
}

/** Take no further jobs, give back those without a place, and after the grace those that have not ended. */
async function stop() {
  setTimeout(giveAllBack, GRACE_MS).unref();
  setTimeout(() => process.exit(0), GRACE_MS + 1_000).unref();
  await Promise.all(consumers.map((tag) => channel.cancel(tag)));
  stopping = true;
  for (const begins of [...waiting.high.splice(0), ...waiting.normal.splice(0)]) begins(false);
  await Promise.all(taken);
  connection.removeAllListeners("close");
  await channel.close(); // by itself: acknowledgements may be lost with a connection that is closed at once
  await connection.close();
  process.exit(0);
}

function giveAllBack() {
  for (const current of running.values()) {
    if (current.abort.signal.aborted) continue;
    current.goesBack = true;
    current.abort.abort();
  }
}

const cancel = (ticket) => running.forEach(({ job, abort }) => job.ticket === ticket && abort.abort());
function search({ replyTo, jobs }) {
  for (const { jobID, ticket } of jobs) {
    const known = running.get(jobID);
    const isAwaited = known && !known.abort.signal.aborted;
    if (isAwaited) known.job = { ...known.job, replyTo, ticket };
    if (ended.has(jobID)) report({ job: { jobID, replyTo } }, "result", ended.get(jobID).result);
    else if (isAwaited) report(known, "started", { executor });
  }
}
for (const [exchange, act] of [["anabranch.cancelled", cancel], ["anabranch.sought", (raw) => search(JSON.parse(raw))]]) {
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.assertExchange(exchange, "fanout");
  await channel.bindQueue(queue, exchange, "");
  await channel.consume(queue, ({ content }) => act(content.toString()), { noAck: true });
}
await channel.prefetch(places);
const dead = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "anabranch.dead" };
const kept = { "x-queue-type": "quorum", "x-delivery-limit": 20, "x-consumer-timeout": 604_800_000, ...dead };
for (const pool of ANABRANCH_POOLS.split(",").flatMap((each) => [each, `${each}.high`])) {
  await channel.assertQueue(`anabranch.jobs.${pool}`, { arguments: kept });
  consumers.push((await channel.consume(`anabranch.jobs.${pool}`, take)).consumerTag);
}
setInterval(() => running.forEach((each) => report(each, "beat")), 5_000).unref();
process.once("SIGTERM", stop).once("SIGINT", stop);
console.log(`executor ${executor} takes jobs of ${ANABRANCH_POOLS}`);
