import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { CommandModule } from 'yargs'
import { systemClock } from '../base/clock.ts'
import { BrimError } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { type AnswerSummary, answerBudget, type GenerateEvent, generate } from '../engine/generate.ts'
import { openBundle } from '../engine/open-bundle.ts'
import { checkSampling } from '../engine/sampler.ts'
import { readManifest } from '../model/bundle.ts'
import { tokenizerFolder } from '../model/manifest.ts'
import { loadChatTemplate } from '../text/chat-template.ts'
import { loadTokenizer, type TextTokenizer, tokenizerFile } from '../text/tokenizer.ts'
import { checkThreads } from './threads.ts'

interface RunOptions {
  bundle: string
  prompt?: string | undefined
  promptIds?: string | undefined
  maxTokens?: number | undefined
  temperature: number
  // yargs types know these by their dashed names only.
  topK?: number
  topP?: number
  seed: number
  stop: string[]
  raw: boolean
  threads: number
  json?: boolean | undefined
}

/** `brim model run`: the whole model on this machine, without agent or bridge. */
export function modelRunCommand(io: Io): CommandModule<object, RunOptions> {
  return {
    command: 'run <bundle>',
    describe: 'answer a prompt with the whole model on this machine',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim model run <bundle> --prompt "…" [options]')
        .example('brim model run qwen --prompt "What is a lamp?"', 'as a chat message, where the model has a chat template')
        .example('brim model run demo --raw --prompt "Once upon" --temperature 0.8 --seed 7', 'continues the text itself')
        .example('brim model run demo --prompt-ids 1,2,3 --max-tokens 16 --json', 'token ids in, one JSON document out')
        .positional('bundle', { type: 'string', demandOption: true, describe: 'folder of the bundle' })
        .option('prompt', { type: 'string', describe: 'what to answer' })
        .option('prompt-ids', { type: 'string', describe: 'the prompt as token ids: 1,2,3', conflicts: 'prompt' })
        .option('max-tokens', { type: 'number', describe: 'end the answer after so many tokens [the rest of the context]' })
        .option('temperature', { type: 'number', default: 0, describe: '0: always the likeliest token' })
        .option('top-k', { type: 'number', default: 0, describe: 'sample among the k likeliest tokens; 0: all' })
        .option('top-p', { type: 'number', default: 1, describe: 'sample among the likeliest tokens of this joint probability' })
        .option('seed', { type: 'number', default: 0, describe: 'the same seed gives the same answer' })
        .option('stop', {
          type: 'string',
          array: true,
          nargs: 1,
          default: [],
          describe: 'end the answer before this text; repeatable',
        })
        .option('raw', { type: 'boolean', default: false, describe: 'leave the chat template out' })
        .option('threads', { type: 'number', default: Math.min(4, availableParallelism()), describe: 'threads per operator' }),
    handler: (options) => runModel(options, io),
  }
}

async function runModel(options: RunOptions, io: Io): Promise<void> {
  const { bundle, json, maxTokens, temperature, topK = 0, topP = 1, seed, stop, threads } = options
  const sampling = { temperature, topK, topP, seed }
  checkThreads(threads)
  checkSampling(sampling)
  // Whatever is wrong with folder or request is said before a model is loaded.
  const { dims } = await readManifest(bundle)
  const tokenizer = await tokenizerOf(options)
  const promptIds = await promptOf(options, tokenizer)
  answerBudget(promptIds, maxTokens, dims)
  const model = await openBundle(bundle, { library: io.env.ORT_LIB, parts: 'chain', threads })
  try {
    const events = generate(model.chain({ cuts: 'full' }), tokenizer, {
      promptIds,
      sampling,
      stop,
      signal: io.signal,
      clock: systemClock,
      ...(maxTokens === undefined ? {} : { maxTokens }),
    })
    const { text, summary } = await deliver(events, json ? () => {} : (piece) => io.write(piece))
    if (json) io.out(JSON.stringify({ text, ...summary }))
    else {
      if (!tokenizer) io.out(summary.tokenIds.join(','))
      else if (!text.endsWith('\n')) io.write('\n')
      io.err(figures(summary))
    }
  } finally {
    await model.release()
  }
}

/** A bundle without a tokenizer takes and gives token ids. */
async function tokenizerOf({ bundle, promptIds }: RunOptions): Promise<TextTokenizer | undefined> {
  const folder = join(bundle, tokenizerFolder)
  return promptIds !== undefined && !existsSync(join(folder, tokenizerFile)) ? undefined : loadTokenizer(folder)
}

async function promptOf({ bundle, prompt, promptIds, raw }: RunOptions, tokenizer: TextTokenizer | undefined): Promise<number[]> {
  if (promptIds !== undefined) {
    const ids = promptIds.split(',').map((id) => (/^\s*\d+\s*$/.test(id) ? Number(id) : Number.NaN))
    if (ids.some(Number.isNaN))
      throw new BrimError('USAGE', `--prompt-ids ${promptIds} is not a list of token ids`, { hint: 'write it like 1,2,3' })
    return ids
  }
  if (prompt === undefined || !tokenizer)
    throw new BrimError('USAGE', 'there is no prompt', { hint: 'add --prompt "…" or --prompt-ids 1,2,3' })
  const template = raw ? undefined : await loadChatTemplate(join(bundle, tokenizerFolder))
  if (!template) return tokenizer.encode(prompt)
  // The template writes the special tokens itself.
  return tokenizer.encode(template.render([{ role: 'user', content: prompt }]), { addSpecialTokens: false })
}

async function deliver(events: AsyncIterable<GenerateEvent>, write: (piece: string) => void) {
  let text = ''
  for await (const event of events) {
    if (event.kind === 'end') return { text, summary: event.summary }
    text += event.text
    write(event.text)
  }
  throw new Error('an answer ended without its summary')
}

function figures({ tokenIds, promptTokens, tokensPerS, ttftMs, finishReason }: AnswerSummary): string {
  const speed = tokensPerS === null ? [] : [`${tokensPerS.toFixed(1)} tokens/s`]
  const first = ttftMs === null ? [] : [`first after ${Math.round(ttftMs)} ms`]
  return [`${tokenIds.length} tokens for a prompt of ${promptTokens}`, ...speed, ...first, `ended: ${finishReason}`].join(' · ')
}
