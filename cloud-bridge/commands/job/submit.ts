import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import { visibleLine } from '../../../core/base/visible-text.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { manifestFile } from '../../../core/model/manifest.ts'
import { bundleOperations } from '../../../core/protocol/http/bundles.ts'
import { jobOperations, Submitted } from '../../../core/protocol/http/jobs.ts'
import { jobKinds } from '../../../core/protocol/jobs.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { followJob } from './follow.ts'

const inputOptions = {
  kind: z.enum(jobKinds).describe('kind of the job'),
  prompt: z.string().describe('user message, for kinds that generate').optional(),
  maxTokens: z.int().meta({ description: 'max tokens of the answer', fallback: 'what the context holds' }).optional(),
  input: z.string().describe('the whole input as JSON, or @file').optional(),
  model: z
    .string()
    .describe('for bundle.install: folder of the bundle on this machine, or the id of a model that the bridge serves')
    .optional(),
  url: z
    .string()
    .meta({ description: 'for bundle.install: URL of that folder', fallback: "the bridge's own bundles" })
    .optional(),
}
type InputOptions = z.output<z.ZodObject<typeof inputOptions>>

const seconds = z.number()

/** Submission of a single job. */
const submit = { ...jobOperations.submit, response: Submitted }

export const command = defineCommand({
  usage: '<kind> --prompt <text> | --input <json> | --model <bundle>',
  examples: [
    ['brim job submit slm.generate --prompt "What is a lamp?"', 'prints the id of the job'],
    ['brim job submit hat.generate --prompt "Hello" --device jetson-01 --watch', 'on one device; streams its answer'],
    ['brim job submit slm.generate --input @question.json --key order-7', 'submitted twice, it is one job'],
    ['brim job submit bundle.install --model qwen --device jetson-01 --watch', 'a bundle that the bridge serves'],
  ],
  options: {
    ...inputOptions,
    device: z.string().meta({ description: 'the only device that may run it', fallback: 'any that can' }).optional(),
    priority: z.number().meta({ description: '0 to 9, the highest first', fallback: '5' }).optional(),
    key: z.string().describe('idempotency key: the same key names the same job while that is retained').optional(),
    deadline: seconds
      .meta({ description: 'seconds until the job times out', fallback: '3600; bundle.install: a week' })
      .optional(),
    attempts: z.number().meta({ description: 'max failed attempts', fallback: '10' }).optional(),
    runTimeout: seconds.meta({ description: 'max seconds of one attempt', fallback: '900; bundle.install: a day' }).optional(),
    stepTimeout: seconds.meta({ description: 'max seconds between two reports of an attempt', fallback: '60' }).optional(),
    lostAfter: seconds
      .meta({ description: 'seconds that a device may be disconnected before its attempt is lost', fallback: '30' })
      .optional(),
    replace: z.boolean().meta({ description: 'start a lost attempt again on another device', fallback: 'yes' }).optional(),
    keep: z
      .enum(['any', 'replacement'])
      .meta({ description: 'whose result counts after a replacement: the first to arrive, or the replacement', fallback: 'any' })
      .optional(),
    watch: z.boolean().default(false).describe('follow the job to its end'),
    ...bridgeOptions,
  },
  async run({ json, watch, ...options }, io) {
    const { kind, device, priority, key, deadline: deadlineS, attempts, replace, keep } = options
    const { runTimeout: runS, stepTimeout: stepS, lostAfter: lostAfterS } = options
    const client = await bridgeClient(options, io)
    const terms = { attempts, timeouts: { runS, stepS }, disconnect: { lostAfterS, replace, keep } }
    const body = { kind, input: await inputOf(options, client), device, priority, key, deadlineS, ...terms }
    const { raw, value } = await client.call(submit, { body })
    if (watch) return followJob(client, value.id, json, io)
    io.out(json ? JSON.stringify(raw) : visibleLine(value.id))
    if (!value.isNew && !json) io.err('a job with this key already exists')
  },
})

/** @throws BrimError USAGE, BUNDLE_INVALID */
async function inputOf(options: InputOptions, client: BridgeClient): Promise<unknown> {
  const { kind, prompt, input, maxTokens, model, url } = options
  if ((model !== undefined || url !== undefined) && (kind !== 'bundle.install' || model === undefined || input !== undefined))
    throw new BrimError('USAGE', '--model and --url are for bundle.install, which takes no --input with them', {
      hint: 'brim job submit bundle.install --model <bundle> --device <id>',
    })
  if (model !== undefined) return { ...(await versionOf(model, client)), url }
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
  try {
    return JSON.parse(text) as unknown
  } catch (cause) {
    throw new BrimError('USAGE', '--input is not valid JSON', { cause, hint })
  }
}

/** The bundle in a folder, or the one that the bridge has of a model. @throws BrimError MODEL_UNKNOWN, BUNDLE_INVALID */
async function versionOf(model: string, client: BridgeClient): Promise<{ modelId: string; manifestSha256: string }> {
  if (/^[0-9a-f]{64}$/.test(model)) {
    const { bundles } = (await client.call(bundleOperations.list, {})).value
    const served = bundles.find(({ modelId }) => modelId === model)
    if (served) return { modelId: model, manifestSha256: served.manifestSha256 }
    throw new BrimError('MODEL_UNKNOWN', `the bridge has no bundle of model ${model}`, {
      hint: 'give the folder of the bundle with --model: the device accepts only the manifest whose hash the job names',
    })
  }
  const { readManifest } = await import('../../../core/model/bundle.ts')
  const { modelId } = await readManifest(model)
  const manifest = await readFile(join(model, manifestFile))
  return { modelId, manifestSha256: createHash('sha256').update(manifest).digest('hex') }
}
