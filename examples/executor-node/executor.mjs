// Executes nodes of anabranch in Node.js: `node executor.mjs HANDLERS.mjs`, with ANABRANCH_BROKER_URL set.
// A handler is an exported function `async (config, context, job) => output` with the name of its node type.
// docs/executors.md describes the protocol. A lost connection ends the process: have it started again.
import { hostname } from "node:os";
import { pathToFileURL } from "node:url";
import amqp from "amqplib";
import { masked, outcome, parsed } from "./job.mjs";
import { Slots } from "./slots.mjs";

const { ANABRANCH_BROKER_URL, ANABRANCH_POOLS = "default", ANABRANCH_CONCURRENCY = "8" } = process.env;
const [GRACE_MS, KEPT_MAX] = [25_000, 100]; // for jobs under way once this process is to end; of jobs that are known
const handlers = await import(pathToFileURL(process.argv[2]));
const executor = `${hostname()}-${process.pid}`;
const jobs = new Map(); // under way, or with a result that is kept, by jobID
const slots = new Slots(Number(ANABRANCH_CONCURRENCY));
const returned = new Set(); // jobs of which a report found nobody
const taken = new Set(); // messages until they are acknowledged
const consumers = [];
const hasEnded = ({ abort }) => abort.signal.aborted;
let stopping = false;

const connection = await amqp.connect(ANABRANCH_BROKER_URL);
connection.on("close", () => process.exit(stopping ? 0 : 1)); // an error ends the process by itself
const channel = await connection.createConfirmChannel();
channel.on("return", ({ properties }) => returned.add(properties.messageId)); // before it is confirmed
const publish = (queue, raw, options) =>
  new Promise((done, fail) => channel.publish("", queue, raw, options, (error) => (error ? fail(error) : done())));

/** Publish a report without the job's secrets; whether somebody awaits it. */
async function report({ jobID, replyTo, secrets }, kind, body) {
  const raw = JSON.stringify({ protocol: 1, jobID, kind, ...masked(body, secrets) });
  await publish(`anabranch.reports.${replyTo}`, Buffer.from(raw), { mandatory: true, messageId: jobID });
  return !returned.delete(jobID);
}

/** End a job with its result; with null: its sender is gone, or it was given back; without: it is cancelled. */
function end(current, result) {
  if (hasEnded(current)) return;
  current.abort.abort();
  current.settle(result);
  jobs.delete(current.jobID);
  if (result) jobs.set(current.jobID, current); // behind those that ended before it
  for (const { jobID } of [...jobs.values()].filter(hasEnded).slice(0, -KEPT_MAX)) jobs.delete(jobID);
}

/** From its arrival to its end. */
async function execute(current, job, { content, fields, properties }) {
  jobs.set(job.jobID, current);
  current.result = new Promise((settle) => (current.settle = settle));
  if (!(await report(current, "started", { executor }))) return end(current, null);
  const hasSlot = await slots.take(job.priority);
  if (hasSlot && !hasEnded(current)) {
    const deliveries = properties.headers["x-delivery-count"] ?? 0;
    outcome(handlers[job.type], job, current, deliveries, report).then((result) => end(current, result));
    await current.result; // a handler that is cancelled may go on, and has no slot any more
  } else if (!hasEnded(current)) {
    // As a new message: the broker counts executors that end with a job. Another one gets it.
    await publish(fields.routingKey, content, { persistent: true });
    end(current, null);
  }
  if (hasSlot) slots.giveBack();
}

/** A message of a pool: its job is executed unless it is known, and it is acknowledged when the result is confirmed. */
async function accept(message) {
  const job = parsed(message.content);
  if (!job) return channel.reject(message, false); // it becomes a dead letter
  const known = jobs.get(job.jobID);
  const current = known ?? { jobID: job.jobID, secrets: [], lines: 0, abort: new AbortController() };
  Object.assign(current, { replyTo: job.replyTo, ticket: job.ticket }); // the newest sender gets the result
  if (!known) execute(current, job, message);
  const result = await current.result;
  if (known && result === null) return accept(message); // that message came to nothing; this one may not
  if (result) await report(current, "result", result);
  channel.ack(message);
}

function take(message) {
  const accepting = accept(message).finally(() => taken.delete(accepting));
  taken.add(accepting);
}

/** Take no further jobs, give back those without a slot, and end when the others have, or after the grace. */
async function stop() {
  setTimeout(() => process.exit(0), GRACE_MS).unref(); // then the broker gives what is under way to others
  await Promise.all(consumers.map((tag) => channel.cancel(tag)));
  stopping = true;
  slots.close();
  await Promise.all(taken);
  await channel.close(); // by itself: acknowledgements may be lost with a connection that is closed at once
  await connection.close();
}

const cancel = (ticket) => jobs.forEach((current) => current.ticket === ticket && end(current));
function search({ replyTo, jobs: sought }) {
  for (const { jobID, ticket } of sought.filter((each) => jobs.has(each.jobID))) {
    const current = Object.assign(jobs.get(jobID), { replyTo, ticket });
    if (hasEnded(current)) current.result.then((result) => report(current, "result", result));
    else report(current, "started", { executor });
  }
}
const told = { "anabranch.cancelled": cancel, "anabranch.sought": (raw) => search(JSON.parse(raw)) };
const { queue } = await channel.assertQueue("", { exclusive: true });
for (const exchange of Object.keys(told)) {
  await channel.assertExchange(exchange, "fanout");
  await channel.bindQueue(queue, exchange, "");
}
await channel.consume(queue, ({ content, fields }) => told[fields.exchange](content.toString()), { noAck: true });
await channel.prefetch(slots.free);
const dead = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "anabranch.dead" };
const kept = { "x-queue-type": "quorum", "x-delivery-limit": 20, "x-consumer-timeout": 604_800_000, ...dead };
for (const pool of ANABRANCH_POOLS.split(",").flatMap((each) => [each, `${each}.high`])) {
  await channel.assertQueue(`anabranch.jobs.${pool}`, { arguments: kept });
  consumers.push((await channel.consume(`anabranch.jobs.${pool}`, take)).consumerTag);
}
setInterval(() => jobs.forEach((each) => hasEnded(each) || report(each, "beat")), 5_000).unref();
process.once("SIGTERM", stop).once("SIGINT", stop);
console.log(`executor ${executor} takes jobs of ${ANABRANCH_POOLS}`);
