import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../kit/base/clock.ts'
import type { Io } from '../kit/base/io.ts'
import { sha256OfFile } from '../kit/base/sha256-of-file.ts'
import { tempFolder } from '../kit/base/temp-folder.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { readManifest } from '../model/bundle/bundle.ts'
import { tokenizerHashOf } from '../model/bundle/bundle-files.ts'
import { manifestFile } from '../model/bundle/manifest.ts'
import { draftSources } from '../model/draft/draft-sources.ts'
import { type HubName, repoOf } from '../model/hub/hub-name.ts'
import { hubSettings } from '../model/hub/hub-settings.ts'
import { tokenizerFile } from '../model/text/tokenizer.ts'
import { assessmentText, type ShownAssessment } from './assessment-text.ts'
import { bundleText, summarize } from './bundle-text.ts'
import { memorySize } from './memory-size.ts'
import { fileOption } from './model-pull.ts'
import { hubNameOf } from './pull-checkpoint.ts'

const options = {
  model: z.string().describe('folder of a bundle or a checkpoint, a GGUF file, or OWNER/NAME[@REVISION] at the hub'),
  file: fileOption,
  deviceMemory: memorySize.optional().meta({
    description: 'memory of a device for weights and KV, such as 4G: shows where to split for it',
    fallback: 'any',
  }),
  sessions: z.int().min(1).default(16).describe('sessions of the bridge at a time'),
  draftHead: z
    .string()
    .optional()
    .meta({ description: 'folder or file of a draft head, as of "brim model build"', fallback: 'none' }),
  slm: z.string().optional().meta({
    description: 'folder of the device’s small model, as of "brim agent run": shows whether it would draft',
    fallback: 'none',
  }),
  context: z.int().min(1).optional().meta({ description: 'tokens of each session', fallback: '4096, or what the model has' }),
}
type InspectOptions = OptionsOf<typeof options>

/** `brim model inspect`: a bundle, or what a checkpoint would need as one. */
export const command = defineCommand({
  examples: [
    ['brim model inspect qwen', 'model, format, split, parts of a bundle'],
    ['brim model inspect qwen --json | jq .modelId', 'must be equal at agent and bridge'],
    ['brim model inspect Qwen/Qwen2.5-0.5B-Instruct --device-memory 1G', 'before it is downloaded: memory, split, drafts'],
  ],
  notes:
    'Of a model at the hub only configuration and headers are downloaded. The memory is what the CPU needs, which computes in\nfp32: fp16 weights take twice their size. The split is the one that the checkpoint’s adapter was trained for, or else the\ndeepest that fits, up to a tenth of the layers; "brim model build --split auto" chooses the same.',
  options,
  run: inspect,
})

async function inspect(options: InspectOptions, io: Io): Promise<void> {
  const { model, json } = options
  const name = hubNameOf(model)
  if (name) return inspectHub(name, options, io)
  const isCheckpoint = model.endsWith('.gguf') || (existsSync(model) && !existsSync(join(model, manifestFile)))
  if (isCheckpoint) return show(resolve(model), await assess(model, options), json, io)
  const summary = summarize(resolve(model), await readManifest(model))
  io.out(json ? JSON.stringify(summary) : bundleText(summary))
}

async function inspectHub(name: HubName, options: InspectOptions, io: Io): Promise<void> {
  const settings = hubSettings(io)
  const [{ Hub }, { outlineModel }] = await Promise.all([import('../model/hub/hub.ts'), import('../model/hub/outline.ts')])
  await using folder = await tempFolder('inspect')
  const hub = new Hub({ settings, clock: systemClock, signal: io.signal })
  const { path, commit } = await outlineModel({ hub, name, file: options.file, folder: folder.path })
  show(`${repoOf(name)}@${commit}`, await assess(path, options), options.json, io)
}

async function assess(path: string, options: InspectOptions): Promise<ShownAssessment> {
  const { deviceMemory: deviceBytes, sessions, context, draftHead, slm } = options
  const [{ openCheckpoint }, { assessModel }] = await Promise.all([
    import('../model/bundle/checkpoint.ts'),
    import('../model/bundle/assess-model.ts'),
  ])
  await using checkpoint = await openCheckpoint(path)
  const assessment = await assessModel(checkpoint, { deviceBytes, sessions, context, draftHead })
  const { adapterSplit } = assessment.draft
  const tokenizer = join(checkpoint.textFolder, tokenizerFile)
  const sources = draftSources({
    hasAdapter: draftHead !== undefined || adapterSplit !== undefined,
    tokenizerHash: existsSync(tokenizer) ? await sha256OfFile(tokenizer) : undefined,
    small: slm === undefined ? [] : [{ name: basename(resolve(slm)), tokenizerHash: tokenizerHashOf(await readManifest(slm)) }],
  })
  return { ...assessment, draft: { ...assessment.draft, sources } }
}

function show(source: string, assessment: ShownAssessment, json: boolean, io: Io): void {
  io.out(json ? JSON.stringify({ model: source, ...assessment }) : assessmentText(source, assessment))
}
