import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Argv, CommandModule } from 'yargs'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { readManifest } from '../../core/model/bundle.ts'
import { manifestFile } from '../../core/model/manifest.ts'
import { jobStates } from '../../core/policy/jobs/job.ts'
import { jobKinds } from '../../core/protocol/jobs.ts'
import { jobsPath } from '../api/jobs.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import type { BridgeClient } from './bridge-client.ts'
import { printable } from './figures.ts'
import type { AtBridge } from './fleet-options.ts'

interface SubmitOptions extends AtBridge {
  kind: (typeof jobKinds)[number]
  prompt?: string | undefined
  input?: string | undefined
  maxTokens?: number | undefined
  model?: string | undefined
  url?: string | undefined
  device?: string | undefined
  priority?: number | undefined
  key?: string | undefined
  deadline?: number | undefined
  attempts?: number | undefined
  runTimeout?: number | undefined
  stepTimeout?: number | undefined
  lostAfter?: number | undefined
  replace?: boolean | undefined
  keep?: 'any' | 'replacement' | undefined
  watch: boolean
}

const Told = z.looseObject({ code: z.string(), message: z.string() }).nullish()
const Job = z.looseObject({
  id: z.string(),
  kind: z.string(),
  state: z.string(),
  attempt: z.number(),
  device: z.string().nullish(),
  submittedAt: z.string(),
  error: Told,
})
const Details = z.looseObject({ ...Job.shape, result: z.looseObject({ text: z.string().optional() }).nullish() })
const Happening = z.union([
  z.looseObject({ type: z.literal('end'), job: Details }),
  z.looseObject({
    type: z.string(),
    seq: z.number(),
    at: z.string(),
    attempt: z.number(),
    device: z.string().nullish(),
    data: z.looseObject({
      text: z.string().optional(),
      error: Told,
      doneBytes: z.number().optional(),
      totalBytes: z.number().optional(),
    }),
  }),
])

/** `brim job …` */
export function jobCommand(io: Io): CommandModule {
  return {
    command: 'job <verb>',
    describe: 'durable work for the devices of a fleet, queued at its bridge',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim job <verb> [options]')
        .example('brim job submit slm.generate --prompt "What is a lamp?" --watch', 'any device with a small model')
        .example('brim job list --dead', 'what came to nothing')
        .options(bridgeOptions)
        .command(submitCommand(io))
        .command(listCommand(io))
        .command(oneCommand(io, 'show', 'one job, with its input, result and history', show))
        .command(oneCommand(io, 'watch', 'follow a job to its end; its text on stdout', watch))
        .command(oneCommand(io, 'cancel', 'end a job; a device that is at it stops', cancel))
        .command(oneCommand(io, 'retry', 'the same work again, as a new job', retry))
        .demandCommand(1, 'say what to do with jobs: brim job --help'),
    handler: () => {},
  }
}

function submitCommand(io: Io): CommandModule<object, SubmitOptions> {
  return {
    command: 'submit <kind>',
    describe: 'queue a job; its text is visible to the bridge',
    builder: (yargs) =>
      (yargs as Argv<AtBridge>)
        .usage('Usage: brim job submit <kind> --prompt <text> | --input <json> [options]')
        .example('brim job submit slm.generate --prompt "What is a lamp?"', 'prints the id of the job')
        .example('brim job submit hat.generate --prompt "Hello" --device jetson-01 --watch', 'on one device; streams its answer')
        .example('brim job submit slm.generate --input @question.json --key order-7', 'submitted twice, it is one job')
        .example('brim job submit bundle.install --model qwen --device jetson-01 --watch', "from the bridge's own HTTP")
        .positional('kind', { choices: jobKinds, demandOption: true, describe: 'what is to be done' })
        .option('prompt', { type: 'string', requiresArg: true, describe: 'of kinds that generate: the user says this' })
        .option('max-tokens', { type: 'number', requiresArg: true, describe: 'longest answer [what the context holds]' })
        .option('model', {
          type: 'string',
          requiresArg: true,
          describe: 'of bundle.install: folder of the bundle here, every byte of which counts, or the id of its model',
        })
        .option('url', {
          type: 'string',
          requiresArg: true,
          describe: 'of bundle.install: where the device fetches that folder [the bridge: --bundle and --bundles]',
        })
        .option('input', { type: 'string', requiresArg: true, describe: 'the whole input as JSON, or @file' })
        .option('device', { type: 'string', requiresArg: true, describe: 'only this one may do it [any that can]' })
        .option('priority', { type: 'number', requiresArg: true, describe: '0 to 9, the highest first [5]' })
        .option('key', {
          type: 'string',
          requiresArg: true,
          describe: 'idempotency: the same key is the same job, for as long as that is kept',
        })
        .option('deadline', {
          type: 'number',
          requiresArg: true,
          describe: 'seconds until it has failed [3600; bundle.install: a week]',
        })
        .option('attempts', { type: 'number', requiresArg: true, describe: 'most attempts that may fail [10]' })
        .option('run-timeout', {
          type: 'number',
          requiresArg: true,
          describe: 'seconds of one attempt [900; bundle.install: a day]',
        })
        .option('step-timeout', { type: 'number', requiresArg: true, describe: 'seconds between two signs of life [60]' })
        .option('lost-after', { type: 'number', requiresArg: true, describe: 'seconds that a device may be away at work [30]' })
        .option('replace', { type: 'boolean', describe: 'another device goes on for one that is lost [yes]' })
        .option('keep', {
          choices: ['any', 'replacement'] as const,
          describe: "whose result counts once another device goes on: the first, or that one's alone [any]",
        })
        .option('watch', { type: 'boolean', default: false, describe: 'follow it to its end' }),
    handler: async (options) => {
      const { kind, device, priority, key, deadline: deadlineS, json } = options
      const client = await bridgeClient(options, io)
      const { attempts, runTimeout: runS, stepTimeout: stepS, lostAfter: lostAfterS, replace, keep } = options
      const terms = { attempts, timeouts: { runS, stepS }, disconnect: { lostAfterS, replace, keep } }
      const body = { kind, input: await inputOf(options), device, priority, key, deadlineS, ...terms }
      const submitted = z.looseObject({ id: z.string(), isNew: z.boolean() }).parse(await client.post(jobsPath, body))
      if (options.watch) return watch(client, submitted.id, json === true, io)
      io.out(json ? JSON.stringify(submitted) : submitted.id)
      if (!submitted.isNew && !json) io.err('there was a job under this key already: that one')
    },
  }
}

/** @throws BrimError USAGE, BUNDLE_INVALID */
async function inputOf({ kind, prompt, input, maxTokens, model, url }: SubmitOptions): Promise<unknown> {
  if ((model !== undefined || url !== undefined) && (kind !== 'bundle.install' || model === undefined || input !== undefined))
    throw new BrimError('USAGE', '--model, with or without --url, is the input of bundle.install', {
      hint: 'brim job submit bundle.install --model <bundle> --device <id>',
    })
  if (model !== undefined) return { ...(await versionOf(model)), url }
  if (input === undefined) return prompt === undefined ? {} : { messages: [{ role: 'user', content: prompt }], maxTokens }
  if (prompt !== undefined || maxTokens !== undefined)
    throw new BrimError('USAGE', '--input says it all: it goes with neither --prompt nor --max-tokens')
  const hint = 'for example --input \'{"prompt": "Hello"}\', or --input @file.json'
  const text = input.startsWith('@')
    ? await readFile(input.slice(1), 'utf8').catch((cause: unknown) => {
        throw new BrimError('USAGE', `${input.slice(1)} cannot be read`, { cause, hint })
      })
    : input
  try {
    return JSON.parse(text) as unknown
  } catch (cause) {
    throw new BrimError('USAGE', '--input is no JSON', { cause, hint })
  }
}

/** What tells a bundle from every other one, its drafters and tokenizer included; of an id alone that of the model. */
async function versionOf(model: string): Promise<{ modelId: string; manifestSha256?: string }> {
  if (/^[0-9a-f]{64}$/.test(model)) return { modelId: model }
  const { modelId } = await readManifest(model)
  const manifest = await readFile(join(model, manifestFile))
  return { modelId, manifestSha256: createHash('sha256').update(manifest).digest('hex') }
}

interface ListOptions extends AtBridge {
  state?: (typeof jobStates)[number] | undefined
  kind?: (typeof jobKinds)[number] | undefined
  dead: boolean
  limit: number
}

function listCommand(io: Io): CommandModule<object, ListOptions> {
  return {
    command: 'list',
    describe: 'the latest jobs',
    builder: (yargs) =>
      (yargs as Argv<AtBridge>)
        .usage('Usage: brim job list [options]')
        .example('brim job list --state RUNNING', 'what devices are at')
        .example('brim job list --dead --json | jq .jobs[].error', 'what came to nothing, and why')
        .option('state', { choices: jobStates, describe: 'only those in this state' })
        .option('kind', { choices: jobKinds, describe: 'only those of this kind' })
        .option('dead', { type: 'boolean', default: false, describe: 'only FAILED, REJECTED and TIMED_OUT' })
        .option('limit', { type: 'number', requiresArg: true, default: 20, describe: 'most jobs' }),
    handler: async ({ json, state, kind, dead, limit, ...options }) => {
      const query = new URLSearchParams({ limit: String(limit) })
      if (state !== undefined) query.set('state', state)
      if (kind !== undefined) query.set('kind', kind)
      if (dead) query.set('dead', 'true')
      const body = await (await bridgeClient(options, io)).get(`${jobsPath}?${query}`)
      if (json) return io.out(JSON.stringify(body))
      const { jobs } = z.object({ jobs: z.array(Job) }).parse(body)
      if (jobs.length === 0) return io.err('no such jobs')
      for (const job of jobs) io.out(printable(lineOf(job)))
    },
  }
}

const lineOf = ({ id, kind, state, attempt, device, submittedAt, error }: z.infer<typeof Job>) =>
  [
    id.padEnd(16),
    kind.padEnd(14),
    state.padEnd(9),
    submittedAt,
    `attempt ${attempt}`,
    device ?? '',
    error ? `${error.message} [${error.code}]` : '',
  ]
    .join('  ')
    .trimEnd()

type Verb = (client: BridgeClient, id: string, json: boolean, io: Io) => Promise<void>

function oneCommand(io: Io, name: string, describe: string, verb: Verb): CommandModule<object, AtBridge & { id: string }> {
  return {
    command: `${name} <id>`,
    describe,
    builder: (yargs) =>
      (yargs as Argv<AtBridge>)
        .usage(`Usage: brim job ${name} <id> [options]`)
        .example(`brim job ${name} 3f9a1c07-42`, describe)
        .positional('id', { type: 'string', demandOption: true, describe: 'as "brim job submit" has printed it' }),
    handler: async ({ id, json, ...options }) => verb(await bridgeClient(options, io), id, json === true, io),
  }
}

const pathOf = (id: string) => `${jobsPath}/${encodeURIComponent(id)}`

const show: Verb = async (client, id, json, io) => {
  const path = pathOf(id)
  const job = z.looseObject({}).parse(await client.get(path))
  const events = await historyOf(client, path)
  if (json) return io.out(JSON.stringify({ ...job, events }))
  const { result, input, ...rest } = job
  for (const [name, value] of Object.entries({ ...rest, input, result })) {
    if (value === null || value === undefined) continue
    io.out(printable(`${name.padEnd(16)}${typeof value === 'object' ? JSON.stringify(value) : String(value)}`))
  }
  for (const event of events) if (!('job' in event) && event.type !== 'text') io.out(historyLine(event))
}

/** The bridge tells so many at once. */
async function historyOf(client: BridgeClient, path: string): Promise<z.infer<typeof Happening>[]> {
  const Page = z.object({ events: z.array(Happening) })
  const all: z.infer<typeof Happening>[] = []
  for (;;) {
    const { events } = Page.parse(await client.get(`${path}/events?after=${all.length}`))
    if (events.length === 0) return all
    all.push(...events)
  }
}

type Passed = Exclude<z.infer<typeof Happening>, { type: 'end' }>

function historyLine({ at, type, attempt, device, data }: Passed): string {
  const error = data.error ? `: ${data.error.message} [${data.error.code}]` : ''
  const mb = (bytes = 0) => (bytes / 1e6).toFixed(1)
  const done = data.totalBytes === undefined ? '' : `: ${mb(data.doneBytes)} of ${mb(data.totalBytes)} MB`
  return printable(`${at}  ${type.padEnd(10)}attempt ${attempt}${device == null ? '' : ` at ${device}`}${done}${error}`)
}

/** The text as it comes; where an attempt is lost, from the beginning of the next. */
const watch: Verb = async (client, id, json, io) => {
  let shown = ''
  for await (const raw of happenings(client, id, io.signal)) {
    const event = Happening.parse(raw)
    if (json) io.out(JSON.stringify(raw))
    if ('job' in event) {
      const { state, error, result } = event.job as z.infer<typeof Details>
      // Kinds that say nothing on their way have their result told.
      const text = result?.text ?? JSON.stringify(result)
      if (!json && state === 'SUCCEEDED') io.write(`${text.startsWith(shown) ? text.slice(shown.length) : `\n${text}`}\n`)
      if (state === 'SUCCEEDED') return
      throw new BrimError('JOB_FAILED', printable(`job ${id} is ${state}${error ? `: ${error.message} [${error.code}]` : ''}`), {
        hint: `brim job show ${id} has its history; brim job retry ${id} does it again`,
      })
    }
    const passed = event as Passed
    if (json) continue
    if (passed.type === 'text') {
      shown += passed.data.text ?? ''
      io.write(passed.data.text ?? '')
      continue
    }
    if (passed.type === 'queued' && shown !== '') io.write('\n')
    if (passed.type === 'queued') shown = ''
    io.err(historyLine(passed))
  }
  throw lost(id)
}

/** What has happened to a job, then what happens, until it ends. @throws BrimError LINK_LOST, and as the client does */
async function* happenings(client: BridgeClient, id: string, signal: AbortSignal): AsyncGenerator<unknown> {
  try {
    yield* client.events(`${pathOf(id)}/events`)
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : lost(id, cause)
  }
}

const lost = (id: string, cause?: unknown) =>
  new BrimError('LINK_LOST', 'the connection to the bridge broke; the job goes on', { cause, hint: `brim job watch ${id}` })

const cancel: Verb = async (client, id, json, io) => {
  const body = await client.post(`${pathOf(id)}/cancel`, {})
  const { canceled, state } = z.looseObject({ canceled: z.boolean(), state: z.string() }).parse(body)
  if (json) io.out(JSON.stringify(body))
  else io.out(canceled ? `job ${id} is canceled` : `job ${id} had ended: it is ${state}`)
}

const retry: Verb = async (client, id, json, io) => {
  const body = await client.post(`${pathOf(id)}/retry`, {})
  io.out(json ? JSON.stringify(body) : z.looseObject({ id: z.string() }).parse(body).id)
}
