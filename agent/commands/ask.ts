import { z } from 'zod'
import { answerModes, isBridgeMode, isDeviceMode } from '../../core/kit/base/answer-modes.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { ReaderRate } from '../../core/kit/base/reader-rates.ts'
import { off } from '../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import { accessOf } from '../../core/kit/login/bridge-access.ts'
import type { BrimServer } from '../../core/wire/openai/ask-server.ts'
import { streamAnswerFrom } from '../../core/wire/openai/client.ts'
import type { BrimReport } from '../../core/wire/openai/responses.ts'
import { apiOption, readAgentApiKey } from './agent-api.ts'
import { recordAnswer } from './answer-recording.ts'
import { costText } from './dollar-text.ts'
import { SketchDisplay } from './sketch-display.ts'
import { waysText } from './ways-text.ts'

const options = {
  question: z.string().describe('the question'),
  api: apiOption,
  bridgeUrl: z.string().optional().meta({
    alias: 'bridge',
    conflicts: 'api',
    description: 'HTTP URL of a bridge, or the name of a login: its own model answers, and it sees the question',
    fallback: 'the agent answers',
  }),
  apiKeyFile: z.string().optional().meta({
    alias: 'key-file',
    description: "file with a key of the agent's API or of the bridge; -: standard input",
    fallback: 'at a bridge the key of the login, else none',
  }),
  model: z.string().optional().meta({ description: 'name of the model that answers', fallback: 'the first of /v1/models' }),
  tokensPerS: ReaderRate.optional().meta({
    description: 'your reading speed in tokens/s: a device delivers at it, a bridge schedules by it; 0: as fast as tokens come',
    fallback: '--reading-speed of the agent, or what the bridge assumes',
  }),
  maxTokens: z.int().min(1).optional().meta({ description: 'max tokens of the answer', fallback: 'what the context holds' }),
  temperature: z.number().min(0).default(0).describe('randomness of sampling; 0: always the likeliest token'),
  seed: z
    .int()
    .optional()
    .meta({ description: 'seed of sampling: the same seed repeats an answer', fallback: 'a new one for each answer' }),
  system: z.string().optional().meta({ description: 'system message before the question', fallback: 'none' }),
  mode: z.enum(answerModes).optional().meta({
    description:
      'at an agent: private, HAT: hidden states leave the device, no text; local, the small model; cloud, the server; cheap, what costs less; fast, both at once; auto, the best of all of them within the budget. At a bridge: full, its model writes the answer; sketch, devices expand its sketch; auto, whichever is better now',
    fallback: '--mode of the agent, --answer-mode of the bridge',
  }),
  private: off.describe('no text leaves the device: the mode auto then uses HAT and the small model only'),
  explain: off.describe(
    'also print each way of answering: when its text was expected, what it would cost, and why it was not used',
  ),
  record: z.string().min(1).optional().meta({
    description:
      'file for the question, the text and how it came, which replaces it; the page shows it again under Answers (docs/page.md)',
    fallback: 'none',
  }),
  fallback: z.enum(['none', 'slm']).optional().meta({
    description: "slm: the device's small model continues where the bridge, or the server of mode cloud, cannot be reached",
    fallback: '--fallback of the agent',
  }),
}
type AskOptions = OptionsOf<typeof options>

/** `brim ask "…"` */
export const command = defineCommand({
  examples: [
    ['brim ask "Can you book a table for two?"', 'the answer on stdout, its figures on stderr'],
    ['brim ask "Tell me a story" --temperature 0.8 --seed 7', 'sampled, and repeatable'],
    ['brim ask "Where is it?" --json | jq .ttftMs', 'one JSON document'],
    ['brim ask "Where is it?" --mode auto', 'device or server, by the budget of the agent; both where it pays'],
    ['brim ask "Where is it?" --mode auto --explain', 'also what each way would have taken and cost'],
    ['brim ask "Where is it?" --mode cheap --tokens-per-s 0', 'by what costs less, as fast as it comes'],
    ['brim ask "Where is it?" --bridge http://127.0.0.1:7070 --api-key-file app.key', 'answered by a bridge alone'],
    ['brim ask "Where is it?" --bridge prod', 'the same at the bridge of "brim login --name prod"'],
    ['brim ask "Where is it?" --mode private --record answer.jsonl', 'to be shown again by the page, without a device'],
    ['brim ask "How do I bake bread?" --bridge prod --mode sketch', 'the sketch, then the answer that devices write from it'],
  ],
  options,
  run: ask,
})

async function ask(given: AskOptions, io: Io): Promise<void> {
  const { question, system, model, maxTokens, temperature, seed, fallback, mode, tokensPerS, record, json } = given
  const isRecordedHere = record !== undefined && given.bridgeUrl === undefined
  // The ways of answering belong to a recording.
  const explain = given.explain || isRecordedHere
  const extensions = {
    fallback,
    mode,
    tokens_per_s: tokensPerS,
    private: given.private || undefined,
    explain: explain || undefined,
  }
  requireMode(given)
  const body = {
    messages: [...(system === undefined ? [] : [{ role: 'system', content: system }]), { role: 'user', content: question }],
    model,
    temperature,
    seed,
    max_tokens: maxTokens,
    // Each event then says how many tokens it brings. In other modes a server that tells none could not take part.
    return_token_ids: (isRecordedHere && (mode === 'private' || mode === 'local')) || undefined,
    ...(Object.values(extensions).every((value) => value === undefined) ? {} : { brim: extensions }),
  }
  const display = json ? undefined : io.outIsTty ? new SketchDisplay(io) : plainDisplay(io)
  const api = await apiOf(given, io)
  let hasText = false
  const listeners = {
    onText(piece: string) {
      hasText = true
      display?.text(piece)
    },
    onSketch: (lines: readonly string[]) => display?.sketch(lines),
    onNotice(notice: string) {
      display?.sketch([])
      io.err(`\n${visibleLine(notice)}`)
      hasText = false
    },
  }
  const recording = record === undefined ? undefined : recordAnswer(record, { question, mode: mode ?? '', tokensPerS }, listeners)
  const answer = await streamAnswerFrom(api, body, io.signal, recording ?? listeners).catch((error: unknown) => {
    recording?.end({ event: 'failed', message: error instanceof Error ? error.message : String(error) })
    display?.sketch([])
    // The error is not part of the answer's last line.
    if (hasText && !json) io.write('\n')
    throw error
  })
  display?.sketch([])
  const { text, finishReason, usage, report } = answer
  recording?.end({ event: 'complete', report, usage })
  if (json) {
    const tokens = usage && { promptTokens: usage.prompt_tokens, tokens: usage.completion_tokens }
    return io.out(JSON.stringify({ text, finishReason, ...tokens, ...report, ...referenceOf(report) }))
  }
  io.write('\n')
  io.err(visibleLine(figuresOf(report)))
  if (given.explain) io.err(waysText(report))
}

/** Agents and bridges have modes of their own. @throws BrimError USAGE */
function requireMode({ mode, bridgeUrl, private: isPrivate }: AskOptions): void {
  if (isPrivate && bridgeUrl !== undefined)
    throw new BrimError('USAGE', 'a bridge reads what it answers: --private is for answers of an agent', {
      hint: 'leave --bridge out',
    })
  if (mode === undefined || (bridgeUrl === undefined ? isDeviceMode(mode) : isBridgeMode(mode))) return
  const [what, hint] =
    bridgeUrl === undefined ? ['a bridge', 'add --bridge with the URL of a bridge'] : ['an agent', 'leave --bridge out']
  throw new BrimError('USAGE', `--mode ${mode} is for answers of ${what}`, { hint: `${hint}, or leave --mode out` })
}

/** A pipe gets the text alone. */
const plainDisplay = (io: Io): Pick<SketchDisplay, 'text' | 'sketch'> => ({ text: (piece) => io.write(piece), sketch: () => {} })

/** A key that is given takes precedence over the login's. @throws BrimError USAGE, CONFIG_INVALID, IDENTITY_INVALID */
async function apiOf({ api, bridgeUrl, apiKeyFile }: AskOptions, io: Io): Promise<BrimServer> {
  const at =
    bridgeUrl === undefined
      ? { server: 'agent' as const, url: api }
      : { server: 'bridge' as const, ...(await accessOf({ bridgeUrl }, io)) }
  return apiKeyFile === undefined ? at : { ...at, key: await readAgentApiKey(apiKeyFile, io) }
}

/** Those of the wire only where states crossed it: not in an answer of a bridge alone. */
function figuresOf({ ttftMs, tbtMs, acceptLength, bytesUp, bytesDown, ...more }: BrimReport): string {
  const ms = (value: number | null) => (value === null ? '–' : `${value.toFixed(1)} ms`)
  const accepted = `${acceptLength?.toFixed(2) ?? '–'}${more.drafting ? ` (${more.drafting.chosen})` : ''}`
  // A private answer that has not moved is like one of an agent without modes.
  const disco = more.disco?.mode === 'private' && more.disco.migrations.length === 0 ? undefined : more.disco
  const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`
  return [
    `TTFT ${ms(ttftMs)}`,
    `TBT p50 ${ms(tbtMs.p50)}, p95 ${ms(tbtMs.p95)}`,
    ...(bytesUp + bytesDown > 0 ? [`accept length ${accepted}`, `up ${kB(bytesUp)}, down ${kB(bytesDown)}`] : []),
    ...(more.reusedTokens > 0 ? [`${more.reusedTokens} prompt tokens reused`] : []),
    ...(more.failovers > 0 ? [`${more.failovers} ${more.failovers === 1 ? 'failover' : 'failovers'}`] : []),
    ...(more.wire === 'int8' ? ['int8 states: tokens may differ from the reference'] : []),
    ...Object.values(referenceOf(more)).map((note) => `computed by ${more.computing?.provider}; ${note}`),
    ...(more.pice ? [sketchOf(more.pice)] : []),
    ...(more.disco?.rule ? [ruleOf(more.disco.mode, more.disco.rule)] : []),
    ...(disco ? dispatchOf(more.sources, disco) : []),
    ...(more.fallback ? [`${disco ? '' : fallbackOf(more.sources)}${more.fallback.message} [${more.fallback.code}]`] : []),
  ].join(' · ')
}

/** What an answer that a GPU computed is to be compared with: rows depend on the provider, and there on the other rows of their step. */
function referenceOf({ computing }: Pick<BrimReport, 'computing'>): { readonly reference?: string } {
  if (!computing || computing.provider === 'cpu') return {}
  return { reference: `to be compared with the reference on ${computing.provider}, but for near ties` }
}

const ruleOf = (mode: string, { name, asked }: { readonly name: string; readonly asked: string }) =>
  `the rule ${name} of this device's owner: mode ${mode} in place of ${asked}`

/** What devices have written, and why the LLM has written the rest. */
function sketchOf({ mode, reason, sketchLines, expandedSentences }: NonNullable<BrimReport['pice']>): string {
  if (mode === 'full') return `in full: ${reason}`
  return `${expandedSentences} of ${sketchLines} sentences by devices${reason === null ? '' : `: ${reason}`}`
}

/** How much of an answer each source wrote, how often it moved, and what it has cost. */
function dispatchOf(sources: BrimReport['sources'], disco: NonNullable<BrimReport['disco']>): string[] {
  const { mode, migrations, cost, tokensPerS, stalls, stalledMs, exhausted } = disco
  const written = sources.map(({ tokens, source, model }) => `${tokens} by ${model} (${source})`)
  const moved = migrations.filter(({ succeeded }) => succeeded)
  const used = Object.values(cost).filter(({ promptTokens, tokens }) => promptTokens + tokens > 0)
  const dollars = used.map((side) => side.dollars)
  const known = dollars.every((each) => each !== null)
  return [
    `mode ${mode}: ${written.join(', ') || 'no tokens'}`,
    ...(moved.length > 0 ? [`moved ${moved.map(({ from, to, reason }) => `${from} → ${to} (${reason})`).join(', ')}`] : []),
    ...(tokensPerS > 0 ? [`delivered at ${tokensPerS} tokens/s`] : []),
    ...(stalls > 0 ? [`${stalls} ${stalls === 1 ? 'stall' : 'stalls'} (${Math.ceil(stalledMs)} ms)`] : []),
    ...(exhausted ? [exhausted] : []),
    // Private answers cost no dollars.
    ...(mode === 'private'
      ? []
      : [known ? `cost ${costText(dollars.reduce((sum, each) => sum + (each ?? 0), 0))}` : 'cost unknown']),
  ]
}

/** Which tokens the small model decoded, before the reason. */
function fallbackOf(sources: BrimReport['sources']): string {
  const { from = 0, model } = sources.find(({ source }) => source === 'slm') ?? {}
  return `${from === 0 ? 'all tokens' : `tokens after the first ${from}`} by the local ${model}: `
}
