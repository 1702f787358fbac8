// Executes nodes of anabranch in Node.js: `node executor.mjs HANDLERS.mjs`, with ANABRANCH_BROKER_URL set.
// A handler is an exported function `async (config, context, job) => output` with the name of its node type.
// docs/executors.md describes the protocol. A lost connection ends the process: have it started again.
import { hostname } from "node:os";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import amqp from "amqplib";

const { ANABRANCH_BROKER_URL, ANABRANCH_POOLS = "default", ANABRANCH_CONCURRENCY = "8" } = process.env;
const handlers = await import(pathToFileURL(resolve(process.argv[2])));
let places = Number(ANABRANCH_CONCURRENCY);
const waiting = []; // jobs without a place, those of high priority first
const executor = `${hostname()}-${process.pid}`;
const running = new Map(); // jobs from their arrival to their result, by jobID
const ended = new Map(); // the results of the last thousand jobs
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
    const line = (text, level = 20) => report(current, "line", { level, text });
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

/** From `started` to the result. */
async function execute(current, deliveries) {
  const { jobID, type, sealed, priority } = current.job;
  if (!(await report(current, "started", { executor }))) return;
  if (places > 0) places -= 1;
  else await new Promise((free) => (priority === "high" ? waiting.unshift(free) : waiting.push(free)));
  let result = null;
  if (deliveries >= 5) result = failure("EXECUTOR_LOST", `${deliveries} executors ended with it`, false);
  else if (!handlers[type]) result = failure("UNKNOWN_NODE_TYPE", `there is no handler of ${type} here`, false);
  else if (sealed) result = failure("SECRET_KEY_MISSING", "this executor opens no secrets", false);
  else if (!current.abort.signal.aborted) result = await outcome(current);
  if (waiting.length) waiting.shift()();
  else places += 1;
  if (result === null) return;
  ended.set(jobID, result);
  if (ended.size > 1000) ended.delete(ended.keys().next().value);
  await report(current, "result", result);
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
  const known = running.get(job.jobID);
  if (known) {
    known.job = job; // the newest sender gets the result
    await known.done;
  } else if (ended.has(job.jobID)) await report({ job }, "result", ended.get(job.jobID));
  else {
    const current = { job, abort: new AbortController() };
    running.set(job.jobID, current);
    current.done = execute(current, message.properties.headers["x-delivery-count"] ?? 0);
    await current.done;
    running.delete(job.jobID);
  }
  channel.ack(message);
}

function take(message) {
  const accepting = accept(message).finally(() => taken.delete(accepting));
  taken.add(accepting);
}

/** Take no further jobs, let those under way end within 25 s, and leave. */
async function stop() {
  await Promise.all(consumers.map((tag) => channel.cancel(tag)));
  setTimeout(() => process.exit(0), 25_000).unref();
  await Promise.all(taken);
  connection.removeAllListeners("close");
  await channel.close(); // by itself: acknowledgements may be lost with a connection that is closed at once
  await connection.close();
  process.exit(0);
}

const cancel = (ticket) => running.forEach(({ job, abort }) => job.ticket === ticket && abort.abort());
function search({ replyTo, jobs }) {
  for (const { jobID, ticket } of jobs) {
    const known = running.get(jobID);
    if (known) known.job = { ...known.job, replyTo, ticket };
    if (ended.has(jobID)) report({ job: { jobID, replyTo } }, "result", ended.get(jobID));
    else if (known) report(known, "started", { executor });
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
