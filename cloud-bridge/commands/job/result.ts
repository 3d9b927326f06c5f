import { z } from 'zod'
import { columns } from '../../../core/kit/cli/columns.ts'
import { age, bytes, compact } from '../figures.ts'

const model = z.object({
  model: z.string(),
  ttftMs: z.number(),
  prefillTokensPerS: z.number(),
  decodeTokensPerS: z.number(),
  c: z.number().nullish(),
  loadMs: z.number().optional(),
  parallel: z.array(z.tuple([z.number(), z.number()])).optional(),
})
const Profile = z.object({
  measuredAt: z.string(),
  promptTokens: z.number(),
  answerTokens: z.number(),
  llm: model.nullable(),
  models: z.array(model),
  unfit: z.array(z.object({ model: z.string(), code: z.string() })),
})
const Installed = z.object({
  modelId: z.string(),
  wasInstalled: z.boolean(),
  name: z.string().optional(),
  bytes: z.number().optional(),
  fetchedBytes: z.number().optional(),
  tookMs: z.number().optional(),
  probes: z.array(z.object({ part: z.string(), passed: z.boolean() })).default([]),
})
const Answer = z.object({ text: z.string() })

/** A job's result for a person. A result of another shape, as of a newer device, is JSON. */
export function resultText(kind: string, result: unknown): string {
  const texts = [profileText, installText, answerText].map((textOf) => textOf(kind, result))
  return texts.find((text) => text !== undefined) ?? JSON.stringify(result)
}

function answerText(_kind: string, result: unknown): string | undefined {
  return Answer.safeParse(result).data?.text
}

function profileText(kind: string, result: unknown): string | undefined {
  const profile = kind === 'profile' ? Profile.safeParse(result).data : undefined
  if (!profile) return undefined
  const { measuredAt, promptTokens, answerTokens, llm, models, unfit } = profile
  const perS = (tokens: number) => `${compact(tokens)} tokens/s`
  const row = (name: string, { ttftMs, prefillTokensPerS, decodeTokensPerS, c, loadMs, parallel }: z.infer<typeof model>) => {
    const [sequences, speedup] = parallel?.at(-1) ?? []
    return [
      name,
      `${Math.round(ttftMs)} ms`,
      perS(prefillTokensPerS),
      perS(decodeTokensPerS),
      c?.toFixed(2) ?? '-',
      loadMs === undefined ? '-' : `${Math.round(loadMs)} ms`,
      speedup === undefined ? '-' : `${speedup.toFixed(1)} × for ${sequences}`,
    ]
  }
  return [
    columns([
      ['MODEL', 'TTFT', 'PROMPT', 'ANSWER', 'TIME/LLM', 'OPENING', 'TOGETHER'],
      ...(llm ? [row(`${llm.model} (with the bridge)`, llm)] : []),
      ...models.map((small) => row(small.model, small)),
    ]),
    ...unfit.map((other) => `${other.model} cannot be opened on this device: ${other.code}`),
    `measured ${measuredAt} with a prompt of ${promptTokens} tokens and an answer of ${answerTokens}`,
  ].join('\n')
}

function installText(kind: string, result: unknown): string | undefined {
  const installed = kind === 'bundle.install' ? Installed.safeParse(result).data : undefined
  if (!installed) return undefined
  const { modelId, wasInstalled, name, bytes: size, fetchedBytes, tookMs, probes } = installed
  if (wasInstalled) return `already installed, and its files are intact: model ${modelId}`
  const duration = tookMs === undefined ? '' : ` in ${age(tookMs / 1_000)}`
  const passed = probes.filter((probe) => probe.passed).map(({ part }) => part)
  return [
    `installed ${name ?? 'the bundle'}${duration}: model ${modelId}`,
    `${bytes(size)} of files, ${bytes(fetchedBytes)} of them downloaded`,
    ...(passed.length === 0 ? [] : [`self-test passed: ${passed.join(', ')}`]),
  ].join('\n')
}
