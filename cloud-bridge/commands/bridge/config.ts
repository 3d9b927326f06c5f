import { configMenu } from '../../../core/kit/config-file/config-commands.ts'
import { installedConfig } from '../../../core/kit/config-file/installed-file.ts'
import { readBridgeConfig } from '../../config.ts'
import { readConfiguredFiles } from '../../parts/configured-files.ts'
import { bridgeSettings, options } from './run.ts'

export const menu = configMenu({
  words: 'brim bridge',
  options,
  defaultFile: () => installedConfig('bridge'),
  check: (given, io) => void readBridgeConfig(bridgeSettings(given, io)),
  readFiles: (given, io) => readConfiguredFiles(readBridgeConfig(bridgeSettings(given, io))),
})
