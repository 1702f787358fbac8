/** Dialogs: a title, what they are about, a body, and buttons at the end. */

import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { FormEvent, ReactElement, ReactNode } from "react";

import { IconButton } from "./Button";

export interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  /** One or two sentences under the title. */
  about?: ReactNode;
  wide?: boolean;
  children?: ReactNode;
  footer?: ReactNode;
  /** Makes the dialog a form: Enter in a field submits it. */
  onSubmit?: () => void;
}

/** The first field has the focus, else the first verb: the button that closes would show its hint, and Escape end that. */
function focusWithin(event: Event): void {
  const content = event.currentTarget as HTMLElement;
  const first = content.querySelector<HTMLElement>("input:not([type=hidden]), textarea, select, [role=combobox]") ?? content.querySelector<HTMLElement>(".dialog-foot button");
  event.preventDefault();
  (first ?? content).focus();
}

export function Dialog({ open, onClose, title, about, wide = false, children, footer, onSubmit }: DialogProps): ReactElement {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A form inside a portal is still inside its React parents.
    event.stopPropagation();
    onSubmit?.();
  };
  const inner = (
    <>
      {children}
      {footer && <div className="dialog-foot">{footer}</div>}
    </>
  );
  return (
    <Radix.Root open={open} onOpenChange={(wanted) => !wanted && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="overlay" />
        <Radix.Content className={`dialog ${wide ? "wide" : ""}`} onOpenAutoFocus={focusWithin} {...(about ? {} : { "aria-describedby": undefined })}>
          <div className="dialog-head">
            <div>
              <Radix.Title asChild>
                <h2>{title}</h2>
              </Radix.Title>
              {about && <Radix.Description className="faint">{about}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <IconButton label="Close" icon={<X size={16} />} small />
            </Radix.Close>
          </div>
          {onSubmit ? (
            <form className="stack" style={{ gap: 16 }} onSubmit={submit}>
              {inner}
            </form>
          ) : (
            inner
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
