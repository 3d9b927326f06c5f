import { relative } from 'node:path'
import { loadTextModel } from '../../core/answer/endpoint/text-model.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { ensureDemoBundle } from '../cluster/demo-bundles.ts'
import type { BenchDocument } from '../frame/bench.ts'
import { machineText } from '../frame/page.ts'
import { heldOutPrompts, readPrompts } from './prompts.ts'

/**
 * The demonstration model, and what its bridge or agent is asked.
 * @param prompts file; absent: the held-out ones
 */
export async function readDemoModel(prompts?: string) {
  const bundle = await ensureDemoBundle()
  const manifest = await readManifest(bundle)
  const text = await loadTextModel(bundle, manifest)
  const file = prompts ?? relative(process.cwd(), heldOutPrompts.file)
  const { card, modelId, format } = manifest
  return {
    bundle,
    manifest,
    text,
    // No check: workloads cut prompts to what the context holds.
    dialogues: await readPrompts(file, { ...text, check: () => {} }),
    conditions: { model: card.name, modelId, format: format.name, prompts: prompts ?? heldOutPrompts.name },
  }
}

/** Machine and model of a document, for a page's conditions. */
export function demoModelText(document: BenchDocument): string {
  const { model, format, modelId } = document.conditions
  return `${machineText(document)} (the benchmark's own processes included).
${model} (${format}, model id ${String(modelId).slice(0, 12)})`
}
