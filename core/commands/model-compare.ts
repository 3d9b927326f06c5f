import { basename, join, resolve } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { orAborted } from '../kit/base/or-aborted.ts'
import { nonEmpty } from '../kit/base/setting-kinds.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { readManifest } from '../model/bundle/bundle.ts'
import { tokenizerHashOf } from '../model/bundle/bundle-files.ts'
import { type Manifest, tokenizerFolder } from '../model/bundle/manifest.ts'
import type { Comparison } from '../model/engine/compare-models.ts'
import type { LoadedModel } from '../model/engine/open-model.ts'
import { loadChatTemplate } from '../model/text/chat-template.ts'
import { readTexts } from '../model/text/text-file.ts'
import { loadTokenizer } from '../model/text/tokenizer.ts'
import { showProgress } from './progress.ts'
import { threadsOption } from './threads.ts'

const options = {
  first: z.string().describe('folder of the bundle that the other one is compared with'),
  second: z.string().describe('folder of a bundle with the same tokenizer'),
  prompts: nonEmpty.describe('file of texts, one in each line; of a .jsonl file prompts (prompt or messages) with their answers'),
  threads: threadsOption,
}
type CompareOptions = OptionsOf<typeof options>

/** `brim model compare`: how far one bundle's predictions are from another's. */
export const command = defineCommand({
  usage: '<first> <second> --prompts FILE',
  examples: [
    ['brim model compare qwen-fp16 qwen-int4 --prompts held-out.txt', 'what int4 costs'],
    ['brim model compare qwen-fp16 qwen-int4 --prompts chats.jsonl --json | jq .perplexityRatio', 'of conversations'],
  ],
  notes:
    'The perplexity is that of every token of the texts but the first, as the whole model predicts it on this machine’s CPU. The\nfirst model’s chat template writes the prompts of a .jsonl file. KL is the divergence of the second model’s distribution\nfrom the first’s.',
  options,
  run: compare,
})

interface Compared {
  readonly dir: string
  readonly manifest: Manifest
}

async function compare({ first, second, prompts, threads, json }: CompareOptions, io: Io): Promise<void> {
  const compared = await Promise.all([first, second].map(async (dir) => ({ dir, manifest: await readManifest(dir) })))
  requireSameTokenizer(compared[0]!, compared[1]!)
  const { texts, shortened } = await textsFor(compared, prompts)
  if (shortened > 0) io.err(`note: ${shortened} of ${texts.length} texts are longer than the context, and were cut there`)
  const [{ openBundle }, { compareModels }] = await Promise.all([
    import('../model/engine/open-bundle.ts'),
    import('../model/engine/compare-models.ts'),
  ])
  const models: LoadedModel[] = []
  try {
    for (const dir of [first, second]) {
      const opening = openBundle(dir, { library: io.env.ORT_LIB, parts: 'chain', threads })
      models.push(await orAborted(opening, io.signal, (late) => late.release()))
    }
    const chains = models.map((model) => model.chain({ cuts: 'full' }))
    const progress = showProgress(io)
    const onProgress = (share: number) => progress.update('texts', share)
    const found = await compareModels([chains[0]!, chains[1]!], texts, { signal: io.signal, onProgress })
    progress.end()
    const counts = { texts: texts.length, shortened }
    io.out(json ? JSON.stringify(jsonOf(found, compared, counts)) : textOf(found, compared, texts.length))
  } finally {
    for (const model of models) await model.release()
  }
}

/** @throws BrimError REQUEST_INVALID */
function requireSameTokenizer(first: Compared, second: Compared): void {
  const hash = tokenizerHashOf(first.manifest)
  const lacking = [first, second].find(({ manifest }) => tokenizerHashOf(manifest) === undefined)
  if (lacking)
    throw new BrimError('REQUEST_INVALID', `${lacking.dir} has no tokenizer: it cannot read texts`, {
      hint: 'build it from a checkpoint with tokenizer.json',
    })
  if (hash === tokenizerHashOf(second.manifest)) return
  throw new BrimError('REQUEST_INVALID', `${first.dir} and ${second.dir} have different tokenizers`, {
    hint: 'compare bundles of one checkpoint, or of models with the same tokenizer.json',
  })
}

/** The texts as both models can read them. @throws BrimError REQUEST_INVALID, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID */
async function textsFor(models: readonly Compared[], file: string): Promise<{ texts: (readonly number[])[]; shortened: number }> {
  const folder = join(models[0]!.dir, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(folder), loadChatTemplate(folder)])
  // A token predicts the next one; texts of one predict nothing.
  const all = (await readTexts(file, { tokenizer, chatTemplate })).filter((ids) => ids.length > 1)
  if (all.length === 0)
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} has no text of two tokens or more`, {
      hint: 'write a text in each line',
    })
  const context = Math.min(...models.map(({ manifest }) => manifest.dims.contextLimit))
  const vocab = Math.min(...models.map(({ manifest }) => manifest.dims.vocab))
  const unknown = all.flat().find((id) => id >= vocab)
  if (unknown !== undefined)
    throw new BrimError('REQUEST_INVALID', `a text has token id ${unknown}, but one of the models has ${vocab} ids`, {
      hint: 'compare bundles of one checkpoint',
    })
  // The last token is predicted and read by no step.
  const texts = all.map((ids) => ids.slice(0, context + 1))
  return { texts, shortened: all.filter((ids) => ids.length > context + 1).length }
}

function jsonOf(
  { tokens, perplexities, topAgreement, divergence }: Comparison,
  models: readonly Compared[],
  counts: { readonly texts: number; readonly shortened: number },
) {
  const [first, second] = models.map(({ dir, manifest }, at) => ({
    dir: resolve(dir),
    modelId: manifest.modelId,
    format: manifest.format.name,
    perplexity: perplexities[at],
  }))
  const perplexityRatio = perplexities[1] / perplexities[0]
  return { first, second, perplexityRatio, topAgreement, klNatsPerToken: divergence, tokens, ...counts }
}

function textOf(found: Comparison, models: readonly Compared[], texts: number): string {
  const { tokens, perplexities, topAgreement, divergence } = found
  const names = models.map(({ dir }) => basename(resolve(dir)))
  const width = Math.max(...names.map((name) => name.length))
  const change = 100 * (perplexities[1] / perplexities[0] - 1)
  return [
    ...models.map(
      ({ manifest }, at) => `${names[at]!.padEnd(width)}  ${manifest.format.name}  perplexity ${perplexities[at]!.toFixed(3)}`,
    ),
    `perplexity ${change < 0 ? '' : '+'}${change.toFixed(2)} %, the same likeliest token at ${(100 * topAgreement).toFixed(2)} % of positions, KL ${divergence.toFixed(5)} nats/token`,
    `${tokens} tokens of ${texts} texts`,
  ].join('\n')
}
