/** Somebody else has saved the draft: what both changed is shown, and nothing is lost. */

import { useMemo, useState, type ReactElement } from "react";

import type { OpenedDraft } from "../../api/drafts";
import { replaceWithSameKeys } from "../../edit";
import { merge3, readDocument, type Choice } from "../../model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Ago } from "../../ui/time";
import type { EditorSession } from "./session";

interface ConflictDialogProps {
  session: EditorSession;
  theirs: OpenedDraft;
  onClose: () => void;
  onReopen: () => void;
}

const CHOICES: Record<Choice, string> = { mine: "mine", theirs: "theirs", both: "both, mine and a copy of theirs" };

export function ConflictDialog({ session, theirs, onClose, onReopen }: ConflictDialogProps): ReactElement {
  const merge = useMemo(() => merge3(readDocument(session.saver!.base), session.store.document, readDocument(theirs.text)), [session, theirs]);
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(new Map());
  const apply = () => {
    const document = merge.resolve(choices);
    session.saver!.resolved(theirs);
    session.model.try(() => replaceWithSameKeys(session.store, "Merge", document));
    session.keepNow();
    onClose();
  };
  const isDisjoint = merge.conflicts.length === 0;
  return (
    <Dialog
      open
      onClose={onClose}
      wide={!isDisjoint}
      title="The draft was changed elsewhere"
      about={
        <>
          Saved <Ago time={theirs.updatedAt} /> by the key {theirs.updatedBy}.{" "}
          {isDisjoint ? "Both sides changed different things: they can be merged." : "Both sides changed the following. Your changes can be undone afterwards."}
        </>
      }
      footer={
        <>
          <Button
            onClick={() => {
              session.saver!.resolved(theirs);
              session.saver!.edited(theirs.text);
              onReopen();
            }}
          >
            Take theirs, drop mine
          </Button>
          <Button look="primary" onClick={apply}>
            {isDisjoint ? "Merge" : "Merge with these choices"}
          </Button>
        </>
      }
    >
      {merge.conflicts.map((conflict) => (
        <fieldset key={conflict.id} className="conflict">
          <legend>
            {conflict.kind} <code>{conflict.identity}</code> {conflict.about !== "content" && <span className="faint">({conflict.about})</span>}
          </legend>
          <table className="table small">
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Mine</th>
                <th scope="col">Theirs</th>
              </tr>
            </thead>
            <tbody>
              {conflict.fields.map((field) => (
                <tr key={field.pointer}>
                  <td>
                    <code>{field.pointer || "all of it"}</code>
                  </td>
                  <td>
                    <code>{field.before ?? "–"}</code>
                  </td>
                  <td>
                    <code>{field.after ?? "–"}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <div className="row row-wrap">
            {conflict.choices.map((choice) => (
              <label key={choice} className="check">
                <input
                  type="radio"
                  name={conflict.id}
                  checked={(choices.get(conflict.id) ?? "mine") === choice}
                  onChange={() => setChoices((before) => new Map(before).set(conflict.id, choice))}
                />
                {CHOICES[choice]}
              </label>
            ))}
          </div>
        </fieldset>
      ))}
    </Dialog>
  );
}
