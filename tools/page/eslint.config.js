import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: {
      ecmaVersion: 2024,
      sourceType: "module",
      globals: { ...globals.browser, ...globals.node },
    },
    rules: {
      complexity: ["error", 15],
      "max-params": ["error", 6],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-control-regex": "off",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Data reaches the page as text only." },
        { property: "outerHTML", message: "Data reaches the page as text only." },
        { property: "insertAdjacentHTML", message: "Data reaches the page as text only." },
      ],
    },
  },
];
