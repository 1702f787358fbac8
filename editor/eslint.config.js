import boundaries from "eslint-plugin-boundaries";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

const PURE = ["json", "model", "edit", "run", "layout"];

/** Which folders a folder of src/ may import from, besides itself; what stands above is not reachable. */
const ALLOWED = {
  ...Object.fromEntries(PURE.map((folder) => [folder, PURE])),
  api: [...PURE, "api"],
  ui: [...PURE, "api", "ui"],
  canvas: [...PURE, "api", "ui", "canvas"],
  pages: [...PURE, "api", "ui", "canvas", "pages"],
};

export default tseslint.config(
  { ignores: ["src/api/schema.ts"] },
  ...tseslint.configs.recommended,
  {
    files: ["src/**/*.{ts,tsx}"],
    plugins: { boundaries, "react-hooks": reactHooks },
    settings: {
      "boundaries/elements": Object.keys(ALLOWED).map((type) => ({
        type,
        pattern: `src/${type}/**`,
        partialMatch: false,
      })),
      "import/resolver": { node: { extensions: [".ts", ".tsx"] } },
    },
    rules: {
      ...reactHooks.configs.recommended.rules,
      // Lists that draw only what is seen are not memoized by the compiler; we do not use it.
      "react-hooks/incompatible-library": "off",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text never becomes markup." },
        { property: "outerHTML", message: "Text never becomes markup." },
        { property: "insertAdjacentHTML", message: "Text never becomes markup." },
        { object: "document", property: "write", message: "Text never becomes markup." },
      ],
      "no-eval": "error",
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Text never becomes markup." },
      ],
      "boundaries/dependencies": [
        "error",
        {
          default: "disallow",
          policies: Object.entries(ALLOWED).map(([from, allow]) => ({
            from: { element: { type: from } },
            allow: { to: { element: { type: allow } } },
          })),
        },
      ],
    },
  },
  {
    // Pure: what is decided here can be repeated, so no clock, no dice, no waiting.
    files: PURE.map((folder) => `src/${folder}/**/*.ts`),
    ignores: ["**/*.test.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: ["react", "react-dom", "@xyflow/*", "zustand", "zustand/*", "socket.io-client"] },
      ],
      "no-restricted-globals": ["error", "Date", "setTimeout", "fetch", "crypto"],
    },
  },
);
