import { configMenu } from '../../core/kit/config-file/config-commands.ts'
import { installedConfig } from '../../core/kit/config-file/installed-file.ts'
import { readAgentConfig } from '../config.ts'
import { readConfiguredFiles } from '../parts/configured-files.ts'
import { agentSettings, openFleetConfig, options } from './run.ts'

/** `brim agent config …` */
export const menu = configMenu({
  words: 'brim agent',
  options,
  defaultFile: () => installedConfig('agent'),
  fleetOf: (configuration, io) => openFleetConfig(configuration, io).layer,
  check: (given, io) => void readAgentConfig(agentSettings(given, io)),
  readFiles: (given, io) => readConfiguredFiles(readAgentConfig(agentSettings(given, io))),
})
