import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { projectRoot } from '../../../core/kit/base/version.ts'

/** The option of every command that reads traces. */
export const dataOption = z
  .string()
  .min(1)
  .optional()
  .meta({ description: 'folder of the traces that a scenario names', fallback: '../shared/data, beside the checkout' })

/** Used where none is given; it need not exist. */
export const defaultDataFolder = (): string => fileURLToPath(new URL('../shared/data', projectRoot))
