// A handler for the executor in Node.js that needs a secret and a large value, and tells what it should not.
import { createHmac } from "node:crypto";

export async function crypto({ source, key }, context, job) {
  job.line(`the key is ${key}, and the input as long as the source: ${context.input.text.length === source.length}`);
  return createHmac("sha256", key).update(source).digest("hex");
}
