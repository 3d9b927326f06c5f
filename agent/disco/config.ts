import { z } from 'zod'
import { apiBaseUrl } from '../../core/answer/upstream/base-url.ts'
import { deviceModes } from '../../core/kit/base/answer-modes.ts'
import { ReaderRate } from '../../core/kit/base/reader-rates.ts'
import { nonEmpty, off } from '../../core/kit/base/setting-kinds.ts'
import { defaultAutoPatienceS } from '../../core/policy/disco/dispatch.ts'
import type { TokenCosts } from '../../core/policy/disco/state.ts'

/** Dollars per 10⁶ tokens of prompt and answer, such as `0.15/0.60`. */
const Price = z
  .string()
  .regex(/^\d+(\.\d+)?\/\d+(\.\d+)?$/, 'must be like 0.15/0.60: dollars per million tokens of prompt and answer')

/** Dollars per token. @param price valid; absent: unknown */
export function costsOf(price: string | undefined): TokenCosts | undefined {
  const [prompt, output] = price?.split('/').map((dollars) => Number(dollars) / 1e6) ?? []
  return prompt === undefined || output === undefined ? undefined : { prompt, output }
}

/** A bridge is asked with this device's own credentials, for the model that both have. */
const onlyForUrls = (field: 'model' | 'keyFile' | 'continues') => ({
  message: 'is for the URL of a server, not for --server bridge',
  path: [field],
})

/** The server that is the remote side of answers that may leave the device, in the modes that the client or the owner chooses for it. */
export const ServerConfig = z
  .strictObject({
    at: z
      .union(
        [
          z.literal('bridge'),
          z
            .url({ protocol: /^https?$/ })
            .refine((url) => !url.includes('@'))
            .transform(apiBaseUrl),
        ],
        {
          error: 'must be "bridge", or a URL like https://api.example.com/v1 without name and password: a key belongs in a file',
        },
      )
      .meta({
        flag: 'server',
        description:
          "server for the modes cloud, cheap, fast and auto: bridge, the bridge's own model; or the URL of a server with OpenAI's API. It sees the questions of these modes",
        fallback: 'none: HAT takes its place in cheap, fast and auto',
      }),
    model: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .meta({ description: 'name of its model, where the server is a URL', fallback: 'none' }),
    keyFile: nonEmpty
      .optional()
      .meta({ description: 'file with the API key for that server, readable by its owner only', fallback: 'no key' }),
    continues: off.describe(
      'that server goes on after a last message of the assistant (vLLM, SGLang, llama.cpp): answers may move to it, and back',
    ),
    price: Price.optional().meta({
      description: 'price of that server in dollars per million tokens of prompt and answer, such as 0.15/0.60',
      fallback: 'unknown: the budget then limits the server, and reports have no cost',
    }),
  })
  .refine(({ at, model }) => at === 'bridge' || model !== undefined, {
    message: 'is missing: the name of the model of --server',
    path: ['model'],
  })
  .refine(({ at, model }) => at !== 'bridge' || model === undefined, onlyForUrls('model'))
  .refine(({ at, keyFile }) => at !== 'bridge' || keyFile === undefined, onlyForUrls('keyFile'))
  .refine(({ at, continues }) => at !== 'bridge' || !continues, onlyForUrls('continues'))
export type ServerConfig = z.infer<typeof ServerConfig>

/** How answers are dispatched to the device, the server or both (DiSCo). */
export const DispatchConfig = z.strictObject({
  mode: z.enum(deviceModes).default('private').meta({
    flag: 'mode',
    description:
      'mode of requests that name none. private: by HAT; local: by the small model; cloud: by --server; cheap: by what costs less; fast: by both at once; auto: by the best of all, within --budget-share',
  }),
  fallback: z.enum(['none', 'slm']).default('none').meta({
    flag: 'fallback',
    description:
      'fallback of requests that name none: slm, the first --slm continues answers of the modes private and cloud whose bridge or server cannot be reached; none, they fail',
  }),
  constrained: z.enum(['auto', 'local', 'remote', 'device', 'server']).default('auto').meta({
    flag: 'constrained',
    description:
      'side that --budget-share limits: local, also called device; remote, also called server; auto: the dearer one at the present battery level',
  }),
  share: z.number().min(0).max(1).default(0.5).meta({
    flag: 'budget-share',
    description: 'part of all prompt tokens, 0 to 1, that the limited side may process in mode auto',
  }),
  autoPatienceS: z.number().positive().max(86_400).default(defaultAutoPatienceS).meta({
    flag: 'auto-patience',
    description:
      'seconds without a first token before the other side starts. Mode auto: the server, even beyond --budget-share; at once if the device would take longer. Modes private and cloud: the small model, for requests that allow it (fallback: slm) and state a rate. Other budgets still apply',
  }),
  tokensPerS: ReaderRate.default(5).meta({
    fleet: true,
    flag: 'reading-speed',
    description:
      'tokens per second at which answers of the modes auto and cheap are delivered to clients that do not state a rate; 0: as fast as they come',
  }),
})
export type DispatchConfig = z.infer<typeof DispatchConfig>

/** What answers may cost, and what energy is worth. */
export const BudgetConfig = z.strictObject({
  dollars: z.number().positive().optional().meta({
    flag: 'budget-dollars',
    description: 'dollars that --server may cost in --budget-window; needs --server-price',
    fallback: 'no limit',
  }),
  joules: z.number().positive().optional().meta({
    flag: 'budget-joules',
    description: 'energy that the small model may use for answers in --budget-window, in joules; 3,600 are a watt-hour',
    fallback: 'no limit',
  }),
  windowH: z
    .number()
    .positive()
    .max(31 * 24)
    .default(24)
    .meta({ flag: 'budget-window', description: 'hours for which --budget-dollars and --budget-joules hold; the window slides' }),
  whenExhausted: z.enum(['other', 'wait', 'refuse']).default('other').meta({
    flag: 'when-exhausted',
    description:
      'for requests beyond the budget: other, the other side answers, if there is one; wait, they wait up to the limit budgetWaitS; refuse, they fail',
  }),
  energyPrice: z.number().min(0).optional().meta({
    flag: 'energy-price',
    description:
      "value of a kilowatt-hour of this device in dollars, to compare with --server-price; a battery's is worth more than mains power",
    fallback: 'by the battery: 5.4 on mains power or when full, 90 at 20 %, more below',
  }),
})
export type BudgetConfig = z.infer<typeof BudgetConfig>
