import type { MedusaHeads, Part } from '../../core/engine/contract.ts'
import { openBundle } from '../../core/engine/open-bundle.ts'
import { type SharedHead, shareHead } from '../../core/engine/shared-head.ts'
import { readManifest } from '../../core/model/bundle.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { loadTextModel, type TextModel } from '../answer/text-model.ts'

/** The parts of a split model that run on the device. */
export interface DeviceModel {
  readonly manifest: Manifest
  readonly input: Part
  readonly head: SharedHead
  /** Undefined where the bundle has none. */
  readonly adapter: Part | undefined
  /** Undefined where the bundle has none, or they were not requested. */
  readonly medusa: MedusaHeads | undefined
  readonly text: TextModel
  close(): Promise<void>
}

export interface DeviceModelOptions {
  readonly bundle: string
  readonly threads: number
  readonly library?: string | undefined
  /** Whether to open the Medusa heads, which are far larger than the adapter. */
  readonly medusa: boolean
}

/** @throws BrimError BUNDLE_INVALID, BUNDLE_CORRUPT, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, RUNTIME_*, OUT_OF_MEMORY */
export async function openDeviceModel({ bundle, threads, library, medusa }: DeviceModelOptions): Promise<DeviceModel> {
  const manifest = await readManifest(bundle)
  const text = await loadTextModel(bundle, manifest)
  const wanted = medusa ? (['adapter', 'medusa'] as const) : (['adapter'] as const)
  const drafters = wanted.filter((name) => manifest.parts[name])
  const model = await openBundle(bundle, { library, parts: ['input', 'output', ...drafters], threads, branching: true })
  return {
    manifest,
    input: model.part('input'),
    head: shareHead(model.head(), manifest.dims.vocab),
    adapter: manifest.parts.adapter && model.part('adapter'),
    medusa: medusa && manifest.parts.medusa ? model.medusa() : undefined,
    text,
    close: () => model.release(),
  }
}
