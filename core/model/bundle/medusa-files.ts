import { join } from 'node:path'
import { z } from 'zod'
import type { Architecture, Medusa } from './architecture.ts'
import { checkHiddenSize, invalidDrafter, parseDrafter } from './drafter-config.ts'
import { findTreeError } from './medusa-tree.ts'

export const medusaConfigFile = 'medusa_config.json'
export const medusaWeightsFile = 'medusa.safetensors'

const what = 'Medusa heads'

const MedusaConfig = z.object({
  kind: z.literal('medusa'),
  /** HAT's baseline has four; the bound protects memory from a hostile file. */
  heads: z.int().min(1).max(16),
  hidden_size: z.int().min(1),
  tree: z.array(z.array(z.int().min(0)).min(1)).min(1),
})

/**
 * @param json medusa_config.json of the folder, parsed
 * @throws BrimError CHECKPOINT_INVALID
 */
export function readMedusa(folder: string, json: object, model: Architecture): Medusa {
  const path = join(folder, medusaConfigFile)
  const { hidden_size, heads, tree } = parseDrafter(MedusaConfig, path, json, what)
  checkHiddenSize(path, hidden_size, model)
  const error = findTreeError(tree, heads, model.dims.vocab)
  if (error) throw invalidDrafter(path, what, error)
  return { heads, tree }
}
