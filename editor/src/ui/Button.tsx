/** Buttons. One that shows an icon alone has its name as tooltip. */

import { Tooltip } from "radix-ui";
import type { ButtonHTMLAttributes, ReactElement, ReactNode, Ref } from "react";

import { keysText } from "./keys";

type Look = "plain" | "primary" | "quiet" | "danger";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  small?: boolean;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ look = "plain", small = false, className = "", type = "button", ...rest }: ButtonProps): ReactElement {
  return <button type={type} className={`button ${look} ${small ? "small" : ""} ${className}`} {...rest} />;
}

export interface IconButtonProps extends Omit<ButtonProps, "children"> {
  label: string;
  icon: ReactNode;
  /** The key that does the same, as `keysText` takes it. */
  keys?: string;
}

export function IconButton({ label, icon, keys, className = "", look = "quiet", ...rest }: IconButtonProps): ReactElement {
  return (
    <Hint text={label} keys={keys}>
      <Button aria-label={label} look={look} className={`icon ${className}`} {...rest}>
        {icon}
      </Button>
    </Hint>
  );
}

/** A tooltip; what it says must also be said otherwise, for touch and screen readers. */
export function Hint({ text, keys, children }: { text: ReactNode; keys?: string | undefined; children: ReactElement }): ReactElement {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content className="tooltip" sideOffset={6} collisionPadding={8}>
          {text} {keys && <kbd>{keysText(keys)}</kbd>}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
