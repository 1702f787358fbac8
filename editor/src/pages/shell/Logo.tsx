import type { ReactElement } from "react";

export function Logo({ size = 22 }: { size?: number }): ReactElement {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden>
      <rect width="32" height="32" rx="7" fill="#0b7285" />
      <path d="M16 4v4c0 5-7 4-7 8s7 3 7 8v4M16 8c0 5 7 4 7 8s-7 3-7 8" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
    </svg>
  );
}
