import { relative } from 'node:path'
import { z } from 'zod'
import { defaultDraftThreshold } from '../../../core/policy/hat/draft-stop.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { heldOutPrompts } from '../prompts.ts'
import { acceptanceReport } from './report.ts'
import { benchAcceptance } from './run.ts'

/** With --quick: at most this many prompts, evenly taken, and answers of at most this many tokens. */
const quickLimits = { prompts: 18, maxTokens: 64 }

const options = {
  bundle: z.string().min(1).meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }).optional(),
  prompts: z
    .string()
    .min(1)
    .meta({
      description: 'JSON lines with "prompt" or "messages", optionally "task" and "id"',
      fallback: "the demonstration's held-out prompts",
    })
    .optional(),
  maxTokens: z.int().min(1).default(128).describe('maximum length of an answer, in tokens'),
  threshold: z.number().min(0).max(1).default(defaultDraftThreshold).describe('η: a draft ends below this probability'),
  draftLimit: z.int().min(1).default(8).describe('maximum tokens per draft; a Medusa tree has a size of its own'),
}

export const acceptanceBench: Bench<typeof options> = {
  name: 'acceptance',
  options,
  examples: [['brim bench acceptance --bundle qwen --prompts mine.jsonl', 'on your own bundle and prompts']],
  goals: { acceptLengthAdapter: { min: 2.2 } },
  async run(context, { bundle, prompts, maxTokens, threshold, draftLimit }) {
    const folder = bundle ?? (await ensureDemoBundle())
    const limits = context.quick ? quickLimits : { prompts: Number.POSITIVE_INFINITY, maxTokens }
    const result = await benchAcceptance(
      {
        folder,
        file: prompts ?? relative(process.cwd(), heldOutPrompts.file),
        maxPrompts: limits.prompts,
        maxTokens: Math.min(maxTokens, limits.maxTokens),
        threshold,
        draftLimit,
      },
      context,
    )
    return { ...result, conditions: { ...result.conditions, prompts: prompts ?? heldOutPrompts.name } }
  },
  report: acceptanceReport,
}

/** `brim bench acceptance` */
export const command = benchCommand(acceptanceBench)
