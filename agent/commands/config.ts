import { configMenu } from '../../core/config-file/config-commands.ts'
import { installedConfig } from '../../core/config-file/installed-file.ts'
import { readAgentConfig } from '../config.ts'
import { agentSettings, options } from './run.ts'

/** `brim agent config …` */
export const menu = configMenu({
  words: 'brim agent',
  options,
  defaultFile: () => installedConfig('agent'),
  check: (given, io) => void readAgentConfig(agentSettings(given, io)),
})
