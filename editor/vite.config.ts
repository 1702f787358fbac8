/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig, type ProxyOptions } from "vite";

// `make editor` shows the pages of this server; ANABRANCH_URL names another.
const server = process.env["ANABRANCH_URL"] ?? "http://127.0.0.1:8321";

/** The server takes requests of its own pages only: while it is called through us, we are its page. */
function toServer(ws: boolean): ProxyOptions {
  return { target: server, changeOrigin: true, ws, headers: { Origin: server } };
}

export default defineConfig({
  plugins: [react()],
  // The server writes a nonce of its own in the place of this word, into each answer.
  html: { cspNonce: "ANABRANCH_NONCE" },
  build: {
    outDir: "../anabranch/pages/bundle",
    emptyOutDir: true,
    // Nothing may be put into the page or a style sheet as a data URL: the policy of the page has files only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  worker: { format: "es" },
  server: {
    proxy: Object.fromEntries(["/v1", "/docs", "/openapi.json", "/favicon.svg", "/socket.io"].map((path) => [path, toServer(path === "/socket.io")])),
  },
  // Only what hangs is ended: property tests of hundreds of documents share the machine with other tests.
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node", testTimeout: 300_000 },
});
