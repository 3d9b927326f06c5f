import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../core/kit/base/version.ts'

const heldOutName = 'test/fixtures/heldout-prompts.jsonl'
/** The prompts of the demonstration model that its training did not see. */
export const heldOutPrompts = { name: heldOutName, file: fileURLToPath(new URL(heldOutName, projectRoot)) }
