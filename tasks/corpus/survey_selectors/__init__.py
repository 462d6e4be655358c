"""Survey selectors, one file each; `survey_selector` holds their interface and registry.

What belongs here: a class that decides which candidates are literature surveys, registered with `@survey_selector`.
What does not: finding candidates (`surveys`) and comparing a selector with human labels (`selector_scoring`).
"""
