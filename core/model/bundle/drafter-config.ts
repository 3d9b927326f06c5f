import type { z } from 'zod'
import '../../kit/base/plain-messages.ts'
import { BrimError } from '../../kit/base/errors.ts'
import type { Architecture } from './architecture.ts'

/** @throws BrimError CHECKPOINT_INVALID naming the file and the invalid fields */
export function parseDrafter<S extends z.ZodType>(schema: S, path: string, json: object, what: string): z.infer<S> {
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  const fields = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'the document'}: ${issue.message}`)
  throw invalidDrafter(path, what, fields.join('; '))
}

export function invalidDrafter(path: string, what: string, why: string): BrimError {
  return new BrimError('CHECKPOINT_INVALID', `${path} is not a valid configuration of ${what}: ${why}`, {
    hint: 'export the drafter again, or choose other --drafters',
  })
}

/** @throws BrimError CHECKPOINT_INVALID if the drafter's hidden size differs from the model's */
export function checkHiddenSize(path: string, hidden: number, { dims }: Architecture): void {
  if (hidden === dims.hidden) return
  throw new BrimError('CHECKPOINT_INVALID', `${path}: hidden_size is ${hidden}, the model's is ${dims.hidden}`, {
    hint: 'use a drafter that was trained for this model',
  })
}
