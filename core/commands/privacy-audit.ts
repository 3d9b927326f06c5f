import { join, resolve } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../kit/base/clock.ts'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { orAborted } from '../kit/base/or-aborted.ts'
import { seededRandom } from '../kit/base/random.ts'
import { nonEmpty, whole } from '../kit/base/setting-kinds.ts'
import { columns } from '../kit/cli/columns.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { readManifest } from '../model/bundle/bundle.ts'
import { type Manifest, tokenizerFolder } from '../model/bundle/manifest.ts'
import type { LoadedModel } from '../model/engine/open-model.ts'
import type { AuditedAttack } from '../model/privacy/audit.ts'
import { loadChatTemplate } from '../model/text/chat-template.ts'
import { readPrompts } from '../model/text/prompt-file.ts'
import { readTexts } from '../model/text/text-file.ts'
import { loadTokenizer } from '../model/text/tokenizer.ts'
import type { BootstrapInterval } from '../policy/estimate/bootstrap.ts'
import { showProgress } from './progress.ts'
import { threadsOption } from './threads.ts'

const options = {
  bundle: z.string().describe('folder of a bundle that is split between device and bridge'),
  prompts: nonEmpty.describe('file of JSON lines with prompt or messages: what is attacked'),
  train: nonEmpty.optional().meta({
    description:
      'file of texts, one in each line or as --prompts, from which an attacker without weights learns; other texts than --prompts',
    fallback: 'none: without that attack',
  }),
  inverter: nonEmpty.optional().meta({
    description: 'folder of a bundle whose middle part guesses tokens from states (scripts/train/train_inverter.py)',
    fallback: 'none: without that attack',
  }),
  answerTokens: whole(2, 64).describe('tokens of each answer'),
  wire: z.enum(['fp16', 'int8']).default('fp16').describe('encoding of the states; coded ones (fp16c) are those of fp16'),
  threads: threadsOption,
}
type AuditCommandOptions = OptionsOf<typeof options>

/** `brim privacy audit`: attacks on what a bridge gets. */
export const command = defineCommand({
  usage: '<bundle> --prompts FILE',
  examples: [
    ['brim privacy audit qwen --prompts prompts.jsonl', 'by an attacker who has the weights'],
    ['brim privacy audit qwen --prompts prompts.jsonl --train texts.txt', 'and by one who has a device of the fleet only'],
    [
      'brim privacy audit qwen --prompts prompts.jsonl --inverter inverter',
      'and by a transformer, trained on states of other texts',
    ],
    ['brim privacy audit qwen-4 --prompts prompts.jsonl --json | jq .attacks', 'of a bundle with another split'],
  ],
  notes:
    'nearest  the token whose state after the template’s first token is the nearest\nsearch   computes the state of each candidate after the tokens found so far, and takes the nearest\ntrained  linear discriminants of states, learnt from pairs of tokens and states\nhead     the model’s own head over the states that the bridge computes\ninverter a transformer over all rows of a text, trained on pairs of tokens and states\n\nAnswers are sampled at temperature 1. Intervals are 95 % bootstrap intervals over the texts. What all prompts begin and end with is\nnot counted.',
  options,
  run: audit,
})

async function audit({ bundle, json, ...asked }: AuditCommandOptions, io: Io): Promise<void> {
  await using opened = await openAudit(bundle, asked, io)
  const progress = showProgress(io)
  const found = await opened.run((share) => progress.update('prompts', share))
  progress.end()
  const { attacks } = await import('../model/privacy/audit.ts')
  const { modelId, split, dims } = opened.manifest
  const described = found.map((each) => ({ ...each, needs: attacks[each.attack] }))
  const { wire } = asked
  if (json) io.out(JSON.stringify({ dir: resolve(bundle), modelId, split, layers: dims.layers, wire, attacks: described }))
  else io.out(textOf(described))
}

/** What is attacked, and how it is sent. */
export type AuditedTexts = Pick<AuditCommandOptions, 'prompts' | 'train' | 'inverter' | 'answerTokens' | 'wire' | 'threads'>

interface OpenAudit extends AsyncDisposable {
  readonly manifest: Manifest
  readonly model: LoadedModel
  /** @param onProgress gets a share, 0..1 */
  run(onProgress: (share: number) => void): Promise<AuditedAttack[]>
}

/** @throws BrimError REQUEST_INVALID for a whole model, or a prompt that does not fit; as opening a bundle and reading the files */
export async function openAudit(
  bundle: string,
  { prompts, train, inverter, answerTokens, ...how }: AuditedTexts,
  io: Io,
): Promise<OpenAudit> {
  const manifest = await readManifest(bundle)
  if (manifest.split === null)
    throw new BrimError('REQUEST_INVALID', `${bundle} is a whole model: nothing of it runs at a bridge`, {
      hint: 'build it with "brim model build --split"',
    })
  if (inverter !== undefined) checkInverter(manifest, await readManifest(inverter))
  const folder = join(bundle, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(folder), loadChatTemplate(folder)])
  const text = { tokenizer, chatTemplate, check: checkLength(manifest, answerTokens) }
  const asked = (await readPrompts(prompts, text)).map(({ ids }) => ids)
  const { contextLimit } = manifest.dims
  const training = train === undefined ? [] : (await readTexts(train, text)).map((ids) => ids.slice(0, contextLimit))
  const [{ openBundle }, { auditPrivacy }, { onWire }] = await Promise.all([
    import('../model/engine/open-bundle.ts'),
    import('../model/privacy/audit.ts'),
    import('../model/privacy/observation.ts'),
  ])
  const open = (folder: string) => {
    const opening = openBundle(folder, { library: io.env.ORT_LIB, parts: 'chain', threads: how.threads })
    return orAborted(opening, io.signal, (late) => late.release())
  }
  const model = await open(bundle)
  const inverting = inverter === undefined ? undefined : await open(inverter)
  const audited = {
    model,
    inverter: inverting,
    send: onWire(how.wire),
    prompts: asked,
    training: training.filter((ids) => ids.length > 1),
    answerTokens,
    decode: (ids: readonly number[]) => tokenizer.decode([...ids]),
    random: seededRandom(1),
    now: systemClock.nowMs,
    signal: io.signal,
  }
  const run = (onProgress: (share: number) => void) => auditPrivacy({ ...audited, onProgress })
  const release = async () => {
    await inverting?.release()
    await model.release()
  }
  return { manifest, model, run, [Symbol.asyncDispose]: release }
}

/** @throws BrimError REQUEST_INVALID unless it reads states of this model, and knows its tokens */
function checkInverter({ dims }: Manifest, inverter: Manifest): void {
  const { hidden, vocab } = inverter.dims
  if (inverter.split !== null && hidden === dims.hidden && vocab === dims.vocab) return
  throw new BrimError(
    'REQUEST_INVALID',
    `the inverter is for states of width ${hidden} and ${vocab} tokens; the model has ${dims.hidden} and ${dims.vocab}`,
    { hint: 'train it for this model, and build it with the same split' },
  )
}

/** @throws BrimError REQUEST_INVALID for a prompt that leaves no room for an answer */
const checkLength =
  ({ dims: { contextLimit } }: Manifest, answerTokens: number) =>
  (ids: readonly number[]): void => {
    if (ids.length >= 2 && ids.length + answerTokens <= contextLimit) return
    throw new BrimError('REQUEST_INVALID', `a prompt of ${ids.length} tokens with an answer of ${answerTokens} does not fit`, {
      hint: `the context holds ${contextLimit} tokens: shorten the prompt, or lower --answer-tokens`,
    })
  }

function textOf(found: readonly (AuditedAttack & { readonly needs: string })[]): string {
  const rows = found.map(({ attack, text, recovered: { top1, top10, rougeL, entities }, tokens, seconds, needs }) => [
    attack,
    text,
    `${percent(top1)}${top1 ? ` (${percent(top1, 'low')} to ${percent(top1, 'high')})` : ''}`,
    percent(top10),
    percent(rougeL),
    percent(entities),
    `${tokens}`,
    `${seconds.toFixed(1)} s`,
    needs,
  ])
  return columns([['ATTACK', 'ON', 'TOKENS FOUND', 'IN TOP 10', 'ROUGE-L', 'NAMES', 'OF', 'TOOK', 'THE ATTACKER HAS'], ...rows])
}

const percent = (interval: BootstrapInterval | null, at: keyof BootstrapInterval = 'mean'): string =>
  interval ? `${Math.round(100 * interval[at])} %` : '–'
