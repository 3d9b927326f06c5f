import { menu } from '../../brim.ts'
import type { Io } from '../../core/base/io.ts'
import { execute } from '../../core/cli/execute.ts'

/** A command, whose error is thrown rather than printed. */
export const brim = (argv: readonly string[], io: Io): Promise<void> => execute(menu, argv, io)
