import { z } from 'zod'
import { figure } from './figure.ts'

const amount = figure(z.number().min(0))
const word = figure(z.string())
const work = { promptTokens: amount, tokens: amount }

/** What answers have cost a device within its budget's window, and what they may cost. */
export const Spending = z.object({
  windowS: amount,
  whenExhausted: word.describe('`other`, `wait` or `refuse`.'),
  server: z
    .object({
      ...work,
      dollars: amount.describe('Null: the price is unknown.'),
      reservedDollars: amount.describe('By answers in progress.'),
      maxDollars: amount.describe('Null: no limit.'),
      promptDollarsPerToken: amount,
      outputDollarsPerToken: amount,
      waitS: amount.describe('Time until there is room in the budget; 0: there is.'),
    })
    .describe('The server of `--server`.'),
  slm: z
    .object({
      ...work,
      joules: amount.describe('Null: neither measured nor estimated.'),
      reservedJoules: amount,
      maxJoules: amount.describe('Null: no limit.'),
      energySource: word.describe(
        "How the energy is known. `measured`: from the device's power; `flops`: from the size of the model.",
      ),
      prefillJPerToken: amount,
      decodeJPerToken: amount,
      dollarsPerJoule: amount.describe('λ: what energy is worth now.'),
      energyReason: word.describe(
        'Why. `setting`: `--energy-price`; `mains`, `battery`; `unknown`: the battery is not readable.',
      ),
      waitS: amount,
    })
    .describe('The small model.'),
  hat: z.object(work).describe('The split model.'),
  auto: z
    .object({
      promptTokens: amount.describe('Of all requests in mode `auto`.'),
      constrained: word.describe('`device` or `server`: the side that the share limits.'),
      maxShare: amount.describe('b.'),
      deviceShare: amount.describe(
        'Prompt tokens that the small model has processed / those of all requests, migrations not counted. Null: no request.',
      ),
      serverShare: amount.describe('The same of the server, or of HAT in its place.'),
    })
    .describe('Answers in mode `auto`.'),
})
export type Spending = z.infer<typeof Spending>
