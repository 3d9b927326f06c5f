import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { BrimError, orThrow, toErrorText } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { columns } from '../../../core/kit/cli/columns.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { jobOperations, maxBatchJobs, Submitted } from '../../../core/wire/protocol/http/jobs.ts'
import { jobKinds } from '../../../core/wire/protocol/jobs.ts'
import { type BridgeClient, bridgeClient } from '../bridge-client.ts'
import { versionOf } from '../bundle-version.ts'
import { devicesWith } from '../labels.ts'
import { allowDowngrade } from '../rollout/content.ts'
import { followJob } from './follow.ts'

const inputOptions = {
  kind: z.enum(jobKinds).describe('kind of the job'),
  prompt: z.string().optional().describe('user message, for kinds that generate'),
  maxTokens: z.int().optional().meta({ description: 'max tokens of the answer', fallback: 'what the context holds' }),
  input: z.string().optional().describe('the whole input as JSON, or @file'),
  model: z
    .string()
    .optional()
    .describe('for bundle.install: folder of the bundle on this machine, or the id of a model that the bridge serves'),
  url: z
    .string()
    .optional()
    .meta({ description: 'for bundle.install: URL of that folder', fallback: "the bridge's own bundles" }),
  activate: off.describe('for bundle.install: the device answers with the bundle from then on, also after restarts'),
  probe: z.string().min(1).optional().meta({
    description:
      'for bundle.install --activate: question that the bundle must answer; otherwise the device returns to what it had',
    fallback: 'none',
  }),
  allowDowngrade,
}
type InputOptions = z.output<z.ZodObject<typeof inputOptions>>

const seconds = z.number()

/** Submission of a single job, and of several. */
const submit = { ...jobOperations.submit, response: Submitted }
const submitBatch = { ...jobOperations.submit, response: z.object({ jobs: z.array(Submitted) }) }

const options = {
  ...inputOptions,
  device: z.string().optional().meta({ description: 'the only device that may run it', fallback: 'any that can' }),
  label: z.array(z.string()).optional().meta({
    description: 'one job for each device with this label, key=value; repeat it for devices that have all of them',
    fallback: 'one job',
  }),
  priority: z.number().optional().meta({ description: '0 to 9, the highest first', fallback: '5' }),
  key: z.string().optional().meta({
    description: 'idempotency key: the same key names the same job while that is retained',
    fallback: 'none: always a new job',
  }),
  deadline: seconds.optional().meta({
    description: 'time from submission to result, in seconds; a job without a result by then is TIMED_OUT',
    fallback: '3600; bundle.install: 604800',
  }),
  attempts: z.number().optional().meta({ description: 'max failed attempts; the job is FAILED after them', fallback: '10' }),
  runTimeout: seconds
    .optional()
    .meta({ description: 'time for one attempt, in seconds, before the next one', fallback: '900; bundle.install: 86400' }),
  stepTimeout: seconds
    .optional()
    .meta({ description: 'time between two reports of a running device, in seconds, before the next attempt', fallback: '60' }),
  lostAfter: seconds.optional().meta({
    description: 'time that the device of an attempt may be disconnected, in seconds, before the attempt counts as lost',
    fallback: '30',
  }),
  replace: z.boolean().optional().meta({
    description: 'after a lost attempt, send the job to another device; --no-replace: wait for the same one',
    fallback: 'yes',
  }),
  keep: z.enum(['any', 'replacement']).optional().meta({
    description: 'result that counts when a lost device returns with one: any (the first to arrive), or that of its replacement',
    fallback: 'any',
  }),
  watch: off.describe('follow the job to its end'),
  ...bridgeOptions,
}
type SubmitOptions = OptionsOf<typeof options>

export const command = defineCommand({
  usage: '<kind> --prompt <text> | --input <json> | --model <bundle>',
  examples: [
    ['brim job submit slm.generate --prompt "What is a lamp?"', 'prints the id of the job'],
    ['brim job submit hat.generate --prompt "Hello" --device jetson-01 --watch', 'on one device; streams its answer'],
    ['brim job submit slm.generate --input @question.json --key order-7', 'submitted twice, it is one job'],
    ['brim job submit bundle.install --model qwen --device jetson-01 --watch', 'a bundle that the bridge serves'],
    ['brim job submit bundle.install --model qwen --label site=lab --watch', 'on every device with the label'],
    ['brim job submit bundle.install --model qwen --device jetson-01 --activate', 'the device then answers with it'],
    ['brim job submit bundle.install --model qwen --device jetson-01 --activate --probe Hello', '… if it answers this'],
  ],
  options,
  async run(given, io) {
    const client = await bridgeClient(given, io)
    return given.label === undefined ? submitOne(given, client, io) : submitForEach(given, given.label, client, io)
  },
})

async function submitOne(given: SubmitOptions, client: BridgeClient, io: Io): Promise<void> {
  const { raw, value } = await client.call(submit, { body: await bodyOf(given, client) })
  // An older bridge does not say.
  if (value.waitsFor !== null && !given.json) io.err(visibleLine(`the job waits: ${value.waitsFor}`))
  if (given.watch) return followJob(client, value.id, given.json, io)
  io.out(given.json ? JSON.stringify(raw) : visibleLine(value.id))
  if (!value.isNew && !given.json) io.err('a job with this key already exists')
}

/** One job for each device with all these labels. @throws BrimError USAGE, DEVICE_UNKNOWN, JOB_FAILED */
async function submitForEach(given: SubmitOptions, labels: readonly string[], client: BridgeClient, io: Io): Promise<void> {
  if (given.device !== undefined || given.key !== undefined)
    throw new BrimError('USAGE', `--label cannot be combined with ${given.device === undefined ? '--key' : '--device'}`, {
      hint: 'it submits one job for each device with the label',
    })
  const devices = await devicesWith(client, labels)
  const body = await bodyOf(given, client)
  const submitted: { device: string; id: string }[] = []
  while (submitted.length < devices.length) {
    const batch = devices.slice(submitted.length, submitted.length + maxBatchJobs)
    const { jobs } = (await client.call(submitBatch, { body: { jobs: batch.map((device) => ({ ...body, device })) } })).value
    submitted.push(...jobs.map(({ id }, at) => ({ id, device: batch[at]! })))
  }
  if (!given.watch && given.json) for (const job of submitted) io.out(JSON.stringify(job))
  else if (!given.watch) io.out(columns([['DEVICE', 'JOB'], ...submitted.map(({ device, id }) => [device, id])]))
  else await followEach(submitted, client, given.json, io)
}

/** @throws BrimError JOB_FAILED where one has failed, after the end of all */
async function followEach(
  jobs: readonly { readonly device: string; readonly id: string }[],
  client: BridgeClient,
  json: boolean,
  io: Io,
): Promise<void> {
  let failed = 0
  for (const { device, id } of jobs) {
    if (!json) io.err(visibleLine(`${device}: job ${id}`))
    try {
      await followJob(client, id, json, io)
    } catch (error) {
      if (!(error instanceof BrimError) || error.code !== 'JOB_FAILED') throw error
      failed += 1
      io.err(`${visibleLine(device)}: ${toErrorText(error)}`)
    }
  }
  if (failed > 0)
    throw new BrimError('JOB_FAILED', `${failed} of ${jobs.length} jobs failed`, { hint: 'the error of each is printed above' })
}

async function bodyOf(given: SubmitOptions, client: BridgeClient) {
  const { kind, device, priority, key, deadline: deadlineS, attempts, replace, keep } = given
  const { runTimeout: runS, stepTimeout: stepS, lostAfter: lostAfterS } = given
  const terms = { attempts, timeouts: { runS, stepS }, disconnect: { lostAfterS, replace, keep } }
  return { kind, input: await inputOf(given, client), device, priority, key, deadlineS, ...terms }
}

/** @throws BrimError USAGE, BUNDLE_INVALID */
async function inputOf(options: InputOptions, client: BridgeClient): Promise<unknown> {
  const { kind, prompt, input, maxTokens, model, url, activate, probe, allowDowngrade } = options
  if (
    (model !== undefined || url !== undefined || activate || allowDowngrade) &&
    (kind !== 'bundle.install' || model === undefined || input !== undefined)
  )
    throw new BrimError(
      'USAGE',
      '--model, --url, --activate and --allow-downgrade are for bundle.install, which takes no --input with them',
      {
        hint: 'brim job submit bundle.install --model <bundle> --device <id>',
      },
    )
  if (probe !== undefined && !activate)
    throw new BrimError('USAGE', '--probe is for bundle.install with --activate', {
      hint: 'other kinds take a probe in --input: {"probe": {"prompt": "Hello"}}',
    })
  const probed = probe === undefined ? {} : { probe: { prompt: probe } }
  const downgrade = allowDowngrade ? { allowDowngrade } : {}
  if (model !== undefined)
    return { ...(await versionOf(model, client)), url, ...(activate ? { activate, ...probed } : {}), ...downgrade }
  if (input === undefined) return prompt === undefined ? {} : { messages: [{ role: 'user', content: prompt }], maxTokens }
  if (prompt !== undefined || maxTokens !== undefined)
    throw new BrimError('USAGE', '--input is the whole input and cannot be combined with --prompt or --max-tokens', {
      hint: 'give one of them',
    })
  const hint = 'for example --input \'{"prompt": "Hello"}\', or --input @file.json'
  const text = input.startsWith('@')
    ? await readFile(input.slice(1), 'utf8').catch((cause: unknown) => {
        throw new BrimError('USAGE', `input file ${input.slice(1)} cannot be read`, { cause, hint })
      })
    : input
  return orThrow(() => JSON.parse(text) as unknown, 'USAGE', '--input is not valid JSON', hint)
}
