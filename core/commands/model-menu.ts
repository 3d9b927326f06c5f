import type { Menu } from '../kit/cli/command.ts'

/** `brim model …` */
export const menu: Menu = {
  examples: [
    ['brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen', 'checkpoint → bundle'],
    ['brim model verify qwen', 'check its files, and its results on this machine'],
    ['brim model run qwen --prompt "What is a lamp?"', 'answer with the whole model on this machine'],
  ],
  commands: {
    'pull <model>': ["download a model from Hugging Face's hub", () => import('./model-pull.ts')],
    'build <checkpoint>': ['build a bundle from a Hugging Face checkpoint', () => import('./model-build.ts')],
    'inspect <model>': ['show a bundle, or what a checkpoint would need as one', () => import('./model-inspect.ts')],
    'verify <bundle>': ["check a bundle's hashes, and its golden vectors on this machine", () => import('./model-verify.ts')],
    'compare <first> <second>': ['compare the predictions of two bundles over texts', () => import('./model-compare.ts')],
    'run <bundle>': ['answer a prompt with the whole model on this machine', () => import('./model-run.ts')],
  },
}
