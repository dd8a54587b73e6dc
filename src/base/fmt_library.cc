// The compiled half of the formatting library, once for the whole project. Debian ships it as a
// shared library, which the plugin must not need, or header-only, with which every file that logs
// compiled three to ten times longer under the sanitizers. The instantiations are those that the
// header declares and the linker asked for.
#include <fmt/format-inl.h>

namespace fmt {
inline namespace v9 {
namespace detail {

template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                         locale_ref);
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
}  // namespace v9
}  // namespace fmt
