import { fileURLToPath } from 'node:url'
import { nonEmpty } from '../../../core/kit/base/setting-kinds.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'

/** The option of every command that reads traces. */
export const dataOption = nonEmpty
  .optional()
  .meta({ description: 'folder of the traces that a scenario names', fallback: '../shared/data, beside the checkout' })

/** Used where none is given; it need not exist. */
export const defaultDataFolder = (): string => fileURLToPath(new URL('../shared/data', projectRoot))
