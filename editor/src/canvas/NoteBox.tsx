/** A note: text that lies beneath the nodes. Double click or Enter edits it. */

import { NodeResizer, type NodeProps } from "@xyflow/react";
import { memo, useEffect, useRef, useState, type ReactElement } from "react";

import { moveTo, resizeNote, setNoteText } from "../edit";
import type { NoteKey } from "../model";
import { useCanvas, useCanvasModel } from "./CanvasModel";
import type { NoteNode } from "./flow";

export const NoteBox = memo(function NoteBox({ id, data, selected }: NodeProps<NoteNode>): ReactElement {
  const key = id as NoteKey;
  const model = useCanvasModel();
  const isFresh = useCanvas((view) => view.selection.lead === key && view.document.notes.get(key)?.content === "");
  const [isEditing, setEditing] = useState(isFresh && !model.isReadOnly);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (isEditing) area.current?.focus();
  }, [isEditing]);
  const drag = useRef(0);
  return (
    <div className={`note ${selected ? "selected" : ""}`} data-note={key} onDoubleClick={() => !model.isReadOnly && setEditing(true)}>
      {selected && !model.isReadOnly && (
        <NodeResizer
          minWidth={96}
          minHeight={48}
          onResizeStart={() => (drag.current += 1)}
          onResize={(_, { x, y, width, height }) =>
            model.try(() =>
              model.store.transact("Resize note", () => {
                resizeNote(model.store, key, { width, height }, `${key} ${drag.current}`);
                moveTo(model.store, new Map([[key, { x, y }]]));
              }, { burst: `resize ${key} ${drag.current}`, withinMs: Infinity }),
            )
          }
        />
      )}
      {isEditing ? (
        <textarea
          ref={area}
          className="nodrag nowheel"
          aria-label="Text of the note"
          value={data.note.content}
          onChange={(event) => model.try(() => setNoteText(model.store, key, event.target.value))}
          onBlur={() => setEditing(false)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setEditing(false);
          }}
        />
      ) : (
        <p>{data.note.content || <span className="faint">Empty note</span>}</p>
      )}
    </div>
  );
});
