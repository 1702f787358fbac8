/** Put another document in the place of this one, as one step: an import, an older version, the result of a merge. */

import { differences, rekeyed, type WorkflowDocument } from "../../model";
import type { EditStore } from "../store";

/** Records that are in both keep their keys, and with them selection and history. */
export function replaceDocument(store: EditStore, name: string, document: WorkflowDocument): void {
  replaceWithSameKeys(store, name, rekeyed(document, store.document));
}

/** The same for a document that was made from this one, such as the result of `merge3`. */
export function replaceWithSameKeys(store: EditStore, name: string, document: WorkflowDocument): void {
  store.transact(name, (transaction) => {
    for (const [key, record] of differences(store.document, document)) {
      if (record === null) transaction.remove(key);
      else transaction.put(record);
    }
  });
}
