// What this executor executes: a function for each node type, with its name.

/** How many words a text has, and the longest of them. */
export async function countWords({ text }, context, job) {
  const words = text.split(/\s+/).filter(Boolean);
  job.line(`${words.length} words in ${job.nodeID}, attempt ${job.attempt}`);
  const longest = words.reduce((found, word) => (word.length > found.length ? word : found), "");
  return { words: words.length, longest };
}
