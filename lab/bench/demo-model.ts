import { relative } from 'node:path'
import { loadTextModel } from '../../core/answer/endpoint/text-model.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { answerBudget } from '../../core/model/engine/generate.ts'
import { readPrompts } from '../../core/model/text/prompt-file.ts'
import { ensureDemoBundle } from '../cluster/demo-bundles.ts'
import type { BenchDocument } from '../frame/bench.ts'
import { machineText } from '../frame/page.ts'
import { heldOutPrompts } from './prompts.ts'

interface AskedModel {
  /** Folder; absent: of the demonstration model. */
  readonly bundle?: string | undefined
  /** File; absent: the held-out ones. */
  readonly prompts?: string | undefined
  /** Rejects prompts that the context cannot hold. Absent: the workload cuts them. */
  readonly mustFit?: boolean
}

/** The demonstration model or another, and what it, its bridge or its agent is asked. */
export async function readDemoModel({ bundle: given, prompts, mustFit = false }: AskedModel = {}) {
  const bundle = given ?? (await ensureDemoBundle())
  const manifest = await readManifest(bundle)
  const text = await loadTextModel(bundle, manifest)
  const file = prompts ?? relative(process.cwd(), heldOutPrompts.file)
  const { card, modelId, format, dims } = manifest
  const check = (ids: readonly number[]) => void (mustFit && answerBudget(ids, undefined, dims))
  return {
    bundle,
    manifest,
    text,
    dialogues: await readPrompts(file, { ...text, check }),
    conditions: { model: card.name, modelId, format: format.name, prompts: prompts ?? heldOutPrompts.name },
  }
}

/** Machine and model of a document, for a page's conditions. */
export function demoModelText(document: BenchDocument): string {
  const { model, format, modelId } = document.conditions
  return `${machineText(document)} (the benchmark's own processes included).
${model} (${format}, model id ${String(modelId).slice(0, 12)})`
}
